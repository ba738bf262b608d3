"""The engine workers as the collector last saw them, from the `engine` events that it records."""

from datetime import datetime
from typing import NamedTuple

import msgspec
import polars as pl

from collector.workers.engine_load import ENGINE


class WorkerLine(msgspec.Struct, frozen=True, kw_only=True):
    """One worker. What the engine does not say is None; of several data-parallel ranks the worst is told."""

    worker: str
    at: datetime
    fault: str | None
    """Why it was not reached; None when it answers."""
    turns: int | None
    """Turns of users that the collector has running there."""
    loaded: tuple[str, ...] | None
    slots: int | None
    """Adapters that it keeps; None when it does not say."""
    running: float | None
    waiting: float | None
    kv_usage: float | None
    cache_hit_rate: float | None
    tokens_per_second: float | None
    accept_rate: float | None


class _Rank(msgspec.Struct, frozen=True):
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    cache_hit_rate: float | None = None
    tokens_per_second: float | None = None
    accept_rate: float | None = None


class _Detail(msgspec.Struct, frozen=True):
    worker: str
    fault: str | None = None
    turns: int | None = None
    loaded: tuple[str, ...] | None = None
    slots: int | None = None
    ranks: tuple[_Rank, ...] | None = None


class Workers(NamedTuple):
    """What the events tell."""

    lines: tuple[WorkerLine, ...]
    """The newest of each worker, by name."""
    unreadable: int
    """Events that tell nothing that can be read."""


def worker_lines(events: pl.DataFrame) -> Workers:
    """`events` has `at, kind, detail` (JSON text)."""
    newest: dict[str, WorkerLine] = {}
    unreadable = 0
    told = events.filter(pl.col("kind") == ENGINE).sort("at", maintain_order=True)
    for at, detail in told.select("at", "detail").iter_rows():
        try:
            said = msgspec.json.decode(detail or "{}", type=_Detail)
        except msgspec.ValidationError:
            unreadable += 1
            continue
        newest[said.worker] = _line(at, said)
    return Workers(tuple(newest[name] for name in sorted(newest)), unreadable)


def _line(at: datetime, said: _Detail) -> WorkerLine:
    ranks = said.ranks or ()
    return WorkerLine(
        worker=said.worker,
        at=at,
        fault=said.fault,
        turns=said.turns,
        loaded=said.loaded,
        slots=said.slots,
        running=_total([each.running for each in ranks]),
        waiting=_total([each.waiting for each in ranks]),
        kv_usage=max((each.kv_usage for each in ranks if each.kv_usage is not None), default=None),
        cache_hit_rate=min((each.cache_hit_rate for each in ranks if each.cache_hit_rate is not None), default=None),
        tokens_per_second=_total([each.tokens_per_second for each in ranks]),
        accept_rate=min((each.accept_rate for each in ranks if each.accept_rate is not None), default=None),
    )


def _total(numbers: list[float | None]) -> float | None:
    """The sum; None where one of them is not known, and of none."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None
