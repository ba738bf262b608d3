"""Sessions as they come in, their feedback and its delay, and what became trainable."""

from datetime import datetime, timedelta
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
    Delay,
    Judged,
    Reason,
    Stage,
    Tenant,
    at_limit,
    failed,
    feedback_recorded,
    first_token,
    judged,
    pace,
    tenants,
    way,
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

    at: datetime | None
    """The time of the newest record, from which pace and active sessions are counted back."""
    sessions: int
    active: int | None
    """None where no turn has a time."""
    turns: int
    pace: tuple[int, ...]
    """Turns begun in each of the minutes to `at`; none where no turn has a time."""
    first_token: Delay
    feedback: Judged | None
    """None where feedback is not recorded."""
    answered: int | None
    """Sessions with feedback; None where it is not recorded."""
    failures: tuple[Failure, ...] | None
    """None where of no turn it is recorded whether it reached its end."""
    at_limit: int | None
    """Turns that the length limit ended; None where no turn says how it ended."""
    stages: tuple[Stage, ...]
    reasons: tuple[Reason, ...]
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
    last_at = sessions["last_at"].drop_nulls()
    found, lost, judges = way(narrowed), failed(narrowed), feedback_recorded(held)
    return Numbers(
        at=at,
        sessions=sessions.height,
        active=None if at is None or last_at.is_empty() else int(last_at.is_between(at - ACTIVE, at).sum()),
        turns=narrowed.turns.height,
        pace=pace(narrowed, at),
        first_token=first_token(narrowed),
        feedback=judged(narrowed) if judges else None,
        answered=sessions["judgements"].count() if judges else None,
        failures=None if lost is None else tuple(Failure(how=how, turns=count) for how, count in lost.items()),
        at_limit=at_limit(narrowed),
        stages=found.stages,
        reasons=found.reasons,
        tenants=tenants(sessions, found.trainable, feedback=judges),
    )


def topic(tools: ToolsOf = Tools) -> Topic[Ask]:
    """The topic with what `--tokenizer` gives."""
    return Topic("traffic", partial(traffic_view, tools=tools))


TOPIC = topic()
"""Without a tokenizer."""
