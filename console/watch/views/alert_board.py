"""Where every alert stands, made again from the events that the evaluator and people wrote."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
import polars as pl

from checks.alerting.alert import Alert, lapsed, told
from checks.alerting.alert_event import ACTS, ALERT, act_of, alert_of
from checks.alerting.evaluator import KINDS
from checks.alerts import Board, rebuilt
from collector.records import Event
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.widgets.palette import State

_READ: Kept[list[Event]] = Kept()
"""The events of the last frame."""


class Standing(NamedTuple):
    """The board and what was written of it."""

    board: Board
    """With what people did since the last evaluation."""
    last: Mapping[str, Event]
    """Rule to the last event that moved it."""
    written: Mapping[str, tuple[Event, ...]]
    """Rule to every event about it, oldest first: alerts, acknowledgements, silences, comments."""
    evaluated_at: datetime | None
    """When an evaluator last wrote; it writes only what changed."""
    window: str | None
    """The window that its numbers are of."""
    unreadable: int
    """Alert events that say nothing that can be read."""


def standing(held: Held) -> Standing:
    """Where the alerts stand, at the time that is shown."""
    now = held.replayed_at or held.read_at
    events = _READ.of((held.events,), lambda: _events(held.events))
    alerts = [(event, alert) for event in events if (alert := alert_of(event)) is not None]
    acts = [act for event in events if (act := act_of(event)) is not None]
    last = {alert.rule: event for event, alert in alerts}
    board = rebuilt([alert for _, alert in alerts])
    watched = {
        name: lapsed(told(alert, acts), now)
        for name, alert in board.alerts.items()
        if (last[name].detail or {}).get("change") != "dropped"
    }
    evaluations = [event for event in events if event.kind not in ACTS]
    return Standing(
        board=Board(watched, board.incidents),
        last=last,
        written=_by_rule(events),
        evaluated_at=evaluations[-1].at if evaluations else None,
        window=_window(evaluations),
        unreadable=sum(event.kind == ALERT for event in events) - len(alerts),
    )


def state_of(alert: Alert) -> State:
    """The state as it is drawn. An alarm whose source fell silent stays one."""
    shown = alert.shown
    if shown == "firing" or (shown == "no_data" and alert.alarming):
        return "critical" if alert.severity == "fail" else "warning"
    return shown


def alert_counts(held: Held) -> dict[State, int]:
    """How many alerts are in each state, for row 1; those that are ok are left out."""
    counts: dict[State, int] = {}
    for alert in standing(held).board.alerts.values():
        state = state_of(alert)
        if state not in ("ok", "no_data"):
            counts[state] = counts.get(state, 0) + 1
    return counts


def _events(frame: pl.DataFrame) -> list[Event]:
    """The events that a board is made from, oldest first; one that cannot be read is none."""
    wanted = frame.filter(pl.col("kind").is_in(KINDS)).sort("at", "writer", "seq", maintain_order=True)
    fields = [name for name in Event.__struct_fields__ if name in wanted.columns]
    found: list[Event] = []
    for row in wanted.select(fields).iter_rows(named=True):
        detail = row.pop("detail")
        try:
            decoded = None if detail is None else msgspec.json.decode(detail, type=dict[str, object])
            found.append(msgspec.convert({name: value for name, value in row.items() if value is not None}, Event))
        except (msgspec.ValidationError, msgspec.DecodeError):
            continue
        found[-1] = msgspec.structs.replace(found[-1], detail=decoded)
    return found


def _by_rule(events: Sequence[Event]) -> dict[str, tuple[Event, ...]]:
    found: dict[str, list[Event]] = {}
    for event in events:
        rule = (event.detail or {}).get("rule")
        if isinstance(rule, str) and event.kind in (ALERT, *ACTS):
            found.setdefault(rule, []).append(event)
    return {rule: tuple(its) for rule, its in found.items()}


def _window(evaluations: Sequence[Event]) -> str | None:
    said = (evaluations[-1].detail or {}).get("window") if evaluations else None
    return said if isinstance(said, str) else None
