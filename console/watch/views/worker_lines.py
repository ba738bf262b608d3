"""The engine workers as the collector last saw them, from the `engine` events that it records."""

from collections.abc import Callable, Sequence
from datetime import datetime
from statistics import fmean
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


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """All workers that answer together, each number beside its worst; None where one of them does not say."""

    answering: int
    unreached: int
    turns: float | None
    turns_most: float | None
    waiting: float | None
    waiting_most: float | None
    kv_mean: float | None
    kv_max: float | None
    cache_mean: float | None
    cache_min: float | None
    tokens_per_second: float | None
    tokens_per_second_least: float | None


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
    """The newest of each worker: those that are not reached, then the busiest first."""
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
    return Workers(tuple(sorted(newest.values(), key=_busy)), unreadable)


def fleet(lines: Sequence[WorkerLine]) -> Fleet | None:
    """Several workers as one; None for fewer, which stand for themselves."""
    answering = [each for each in lines if each.fault is None]
    if len(lines) < 2:
        return None
    turns, waiting = [each.turns for each in answering], [each.waiting for each in answering]
    kv, cache = [each.kv_usage for each in answering], [each.cache_hit_rate for each in answering]
    pace = [each.tokens_per_second for each in answering]
    return Fleet(
        answering=len(answering),
        unreached=len(lines) - len(answering),
        turns=_total(turns),
        turns_most=_of_all(max, turns),
        waiting=_total(waiting),
        waiting_most=_of_all(max, waiting),
        kv_mean=_of_all(fmean, kv),
        kv_max=_of_all(max, kv),
        cache_mean=_of_all(fmean, cache),
        cache_min=_of_all(min, cache),
        tokens_per_second=_total(pace),
        tokens_per_second_least=_of_all(min, pace),
    )


def _busy(line: WorkerLine) -> tuple[bool, float, float, float, str]:
    """What is waited for tells more than what is full, and that more than what runs."""
    return (line.fault is None, -(line.waiting or 0), -(line.kv_usage or 0), -(line.turns or 0), line.worker)


def _of_all(make: Callable[[list[float]], float], numbers: Sequence[float | None]) -> float | None:
    known = [float(number) for number in numbers if number is not None]
    return make(known) if known and len(known) == len(numbers) else None


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


def _total(numbers: Sequence[float | None]) -> float | None:
    """The sum; None where one of them is not known, and of none."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None
