"""Sessions as they come in, their feedback and its delay, and what became trainable."""

from datetime import timedelta
from functools import partial

import msgspec
import polars as pl

from checks.measure import Tools
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.trace.session_rows import session_rows
from console.watch.trace.trace import ToolsOf
from console.watch.views.last_turn import LastTurn, last_turn
from console.watch.views.traffic_numbers import (
    TRAINED,
    Delay,
    Judged,
    Reason,
    Stage,
    Tenant,
    failed,
    first_token,
    judged,
    pace,
    stages,
    tenants,
)
from console.watch.views.trajectories import TrajectoryRow, trajectories_view

ACTIVE = timedelta(minutes=10)
"""A session is active while its last turn is not longer ago than this."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Turns that did not reach their end."""

    how: str
    turns: int


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """All but the list of sessions: made once for the same records."""

    sessions: int
    active: int
    turns: int
    pace: tuple[int, ...]
    """Turns begun in each of the last minutes; the last one is under way."""
    first_token: Delay
    feedback: Judged
    answered: int
    """Sessions with feedback."""
    failures: tuple[Failure, ...]
    stages: tuple[Stage, ...]
    reasons: tuple[Reason, ...]
    untrained: tuple[Failure, ...]
    """Turns that are never trained on, by purpose."""
    tenants: tuple[Tenant, ...]


class TrafficView(View, frozen=True, kw_only=True):
    """The numbers, and a window of the sessions."""

    numbers: Numbers
    total: int
    """Sessions that meet the filter."""
    first: int
    rows: tuple[TrajectoryRow, ...]
    sort: str
    descending: bool
    last: LastTurn | None
    """The last turn of the session that was asked for."""


_KEPT: Kept[Numbers] = Kept()


def traffic_view(held: Held, ask: Ask, open_log: OpenLog, *, tools: ToolsOf = Tools) -> TrafficView:
    """The view that is asked for. FilterError where the filter cannot be used."""
    narrowed = held if ask.adapter is None else _of_adapter(held, ask.adapter)
    inputs = (held.turns, held.rewards, held.feedback, held.newest_at, ask.adapter)
    found = trajectories_view(held, ask, open_log)
    return TrafficView(
        numbers=_KEPT.of(inputs, lambda: _numbers(held, narrowed, ask.adapter)),
        total=found.total,
        first=found.first,
        rows=found.rows,
        sort=found.sort,
        descending=found.descending,
        last=None if not ask.selected else last_turn(held, ask.selected[0], open_log, tools),
    )


def _of_adapter(held: Held, adapter: str) -> Held:
    """Only what an adapter served."""
    turns = held.turns.filter(pl.col("adapter") == adapter)
    ids, sessions = turns["turn_id"].drop_nulls().implode(), turns["session_id"].implode()
    mine = pl.col("turn_id").is_in(ids) | (pl.col("turn_id").is_null() & pl.col("session_id").is_in(sessions))
    return held._replace(turns=turns, rewards=held.rewards.filter(mine), feedback=held.feedback.filter(mine))


def _numbers(held: Held, narrowed: Held, adapter: str | None) -> Numbers:
    sessions = session_rows(held)
    if adapter is not None:
        sessions = sessions.filter(pl.col("session_id").is_in(narrowed.turns["session_id"].implode()))
    at = held.newest_at
    made, reasons = stages(narrowed)
    purposes = narrowed.turns["purpose"].drop_nulls().value_counts(sort=True)
    return Numbers(
        sessions=sessions.height,
        active=0 if at is None else int(sessions["last_at"].is_between(at - ACTIVE, at).sum()),
        turns=narrowed.turns.height,
        pace=pace(narrowed, at),
        first_token=first_token(narrowed),
        feedback=judged(narrowed),
        answered=sessions["judgements"].count(),
        failures=tuple(Failure(how=how, turns=count) for how, count in failed(narrowed).items()),
        stages=made,
        reasons=reasons,
        untrained=tuple(Failure(how=how, turns=count) for how, count in purposes.iter_rows() if how not in TRAINED),
        tenants=tenants(sessions),
    )


def topic(tools: ToolsOf = Tools) -> Topic[Ask]:
    """The topic with what `--tokenizer` gives."""
    return Topic("traffic", partial(traffic_view, tools=tools))


TOPIC = topic()
"""Without a tokenizer."""
