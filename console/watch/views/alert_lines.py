"""One alert as a line: state, rule, value against its limit, how long, where, who."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from checks.alerting.alert import Alert
from collector.records import Event
from console.watch.held import Held
from console.watch.views.alert_board import Standing, standing, state_of
from console.watch.views.place import Place
from console.watch.widgets.palette import STATES, State


class AlertLine(msgspec.Struct, frozen=True, kw_only=True):
    """One alert."""

    rule: str
    check: str | None
    """The check that the rule watches."""
    state: State
    shown: str
    """The word for the state, such as FIRING."""
    severity: str
    alarming: bool
    """Whether it has fired and has not recovered."""
    value: float | None
    unit: str
    threshold: float | None
    window: str | None
    """What the value is of."""
    evaluations: int
    """While pending or recovering: evaluations in a row that counted."""
    since: datetime | None
    """When it came into this state."""
    began_at: datetime | None
    for_s: float | None
    """Seconds since its onset, else in its state."""
    adapter: str | None
    version: int | None
    place: Place | None
    """The worst fault that the evaluator saw."""
    incident: int | None
    who: str | None
    """Who acknowledged or silenced it."""
    until: datetime | None
    """When a silence ends."""
    at: datetime
    """When it was written last."""


def alert_lines(held: Held) -> tuple[AlertLine, ...]:
    """Every alert that is not ok, gravest first; those that never had data are last."""
    now = held.replayed_at or held.read_at
    stands = standing(held)
    lines = [line_of(alert, stands, now) for alert in stands.board.alerts.values() if alert.shown != "ok"]
    return tuple(sorted(lines, key=lambda line: (STATES.index(line.state), line.began_at or line.at, line.rule)))


def line_of(alert: Alert, stands: Standing, now: datetime) -> AlertLine:
    """One alert as a line."""
    event = stands.last[alert.rule]
    detail = event.detail or {}
    begun = alert.began_at or alert.since
    silenced = alert.shown == "silenced"
    return AlertLine(
        rule=alert.rule,
        check=_text(detail, "check"),
        state=state_of(alert),
        shown=_word(alert),
        severity=alert.severity,
        alarming=alert.alarming,
        value=_number(detail, "value"),
        unit=_text(detail, "unit") or "",
        threshold=_number(detail, "threshold"),
        window=_text(detail, "window"),
        evaluations=alert.evaluations,
        since=alert.since,
        began_at=alert.began_at,
        for_s=None if begun is None else max(0.0, (now - begun).total_seconds()),
        adapter=event.adapter,
        version=event.version,
        place=place_of(event),
        incident=alert.incident,
        who=alert.silenced_by if silenced else alert.acked_by,
        until=alert.silenced_until if silenced else None,
        at=event.at,
    )


def place_of(event: Event) -> Place | None:
    """Where the worst fault is, as the event says."""
    told = (event.detail or {}).get("evidence")
    if not isinstance(told, dict):
        return None
    try:
        return msgspec.convert(told, Place, strict=False)
    except msgspec.ValidationError:
        return None


def _word(alert: Alert) -> str:
    word = alert.shown.replace("_", " ").upper()
    return f"{word}, WAS FIRING" if alert.shown == "no_data" and alert.alarming else word


def _text(detail: Mapping[str, object], name: str) -> str | None:
    found = detail.get(name)
    return found if isinstance(found, str) else None


def _number(detail: Mapping[str, object], name: str) -> float | None:
    found = detail.get(name)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
