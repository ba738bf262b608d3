"""Alerts over the findings of a log that grows: rules, and the state machine that an evaluation moves on.

Everything here is pure. Whoever evaluates (a watched store, a trainer) gives the time, what was observed of each rule
and what people did, and writes the records that come of it; `rebuilt` makes the same board from those records again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from checks.alerting.alert import Act, Alert, lapsed, stepped, told
from checks.alerting.incident import Incident, joined, remembered, with_onset
from checks.alerting.rule import Observation, Rule
from collector.errors import UserError
from collector.records import Event

Change = Literal[
    "fired", "graver", "recovered", "blind", "sighted", "silence_over", "acked", "silenced", "dropped", "moved"
]
"""What a transition amounts to; `moved` is progress that nobody is told of."""


class Board(NamedTuple):
    """Where every alert stands."""

    alerts: Mapping[str, Alert] = {}
    """By rule, in the order of the rules."""
    incidents: tuple[Incident, ...] = ()
    """Those of late, oldest first."""

    def incident_of(self, alert: Alert) -> Incident | None:
        """The incident an alert belongs to."""
        return next((each for each in self.incidents if each.incident == alert.incident), None)


class Transition(NamedTuple):
    """One alert that is not as it was."""

    before: Alert
    after: Alert
    observed: Observation
    change: Change
    at: datetime
    incident: Incident | None

    @property
    def notable(self) -> bool:
        """Whether somebody is to be told: not while it is silenced, nor of what somebody did."""
        told_of = self.change in ("fired", "graver", "recovered", "blind", "sighted", "silence_over")
        return told_of and self.after.silenced_until is None


def advance(
    board: Board,
    rules: Sequence[Rule],
    seen: Mapping[str, Observation],
    acts: Sequence[Act],
    now: datetime,
    *,
    incident_window_s: float,
) -> tuple[Board, tuple[Transition, ...]]:
    """The board after one evaluation, of which each rule has an observation, and every alert that changed.

    An alert whose rule is gone is said to be dropped, once.
    """
    alerts: dict[str, Alert] = {}
    incidents = board.incidents
    changed: list[tuple[Alert, Alert]] = []
    for rule in rules:
        before = board.alerts.get(rule.name, Alert(rule=rule.name))
        after = stepped(lapsed(told(before, acts), now), rule, seen[rule.name].level, now)
        if after.alarming and after.incident is None:
            after, incidents = joined(incidents, after, incident_window_s)
        alerts[rule.name] = after
        if after != before:
            changed.append((before, after))
    dropped = [
        alert
        for name, alert in board.alerts.items()
        if name not in alerts and (alert.state != "no_data" or alert.alarming)
    ]
    changed += [(alert, Alert(rule=alert.rule, since=now)) for alert in dropped]
    moved = Board(alerts, incidents)
    transitions = tuple(_transition(moved, before, after, seen, now) for before, after in changed)
    return moved._replace(incidents=remembered(incidents, [*alerts.values()], now, incident_window_s)), transitions


def _transition(
    board: Board, before: Alert, after: Alert, seen: Mapping[str, Observation], now: datetime
) -> Transition:
    change = _change(before, after) if after.rule in board.alerts else "dropped"
    incident = board.incident_of(before if after.incident is None else after)
    return Transition(before, after, seen.get(after.rule, Observation("no_data")), change, now, incident)


def rebuilt(alerts: Sequence[Alert]) -> Board:
    """The board after a restart: from the alert of each `alert` event, oldest first.

    The next `advance` is to be given everything that people ever did, which it takes once only.
    """
    last: dict[str, Alert] = {}
    incidents: tuple[Incident, ...] = ()
    for alert in alerts:
        last[alert.rule] = alert
        if alert.incident is not None and alert.began_at is not None:
            incidents = with_onset(incidents, alert)
    return Board(last, incidents)


def _change(before: Alert, after: Alert) -> Change:
    if after.alarming and not before.alarming:
        return "fired"
    if before.alarming and not after.alarming:
        return "recovered"
    if after.alarming and after.severity != before.severity:
        return "graver"
    if after.alarming and after.state == "no_data" and before.state != "no_data":
        return "blind"
    if after.alarming and before.state == "no_data" and after.state == "firing":
        return "sighted"
    if after.alarming and before.silenced_until is not None and after.silenced_until is None:
        return "silence_over"
    if after.acked_at != before.acked_at and after.acked_at is not None:
        return "acked"
    if after.silenced_until != before.silenced_until and after.silenced_until is not None:
        return "silenced"
    return "moved"


def acknowledge(rule: str, *, actor: str, at: datetime, text: str | None = None) -> Event:
    """The event that acknowledges an alert as it is now; it lapses when the alert recovers or becomes graver."""
    return _act("acknowledge", rule, actor, at, text, {})


def silence(rule: str, *, until: datetime, actor: str, at: datetime, text: str | None = None) -> Event:
    """The event that keeps an alert from being delivered until a time; one that is past ends an earlier silence."""
    if until.tzinfo is None:
        raise UserError(f"silence {rule} until {until.isoformat()}: expected a time with its zone; add Z for UTC")
    return _act("silence", rule, actor, at, text, {"until": until.isoformat()})


def comment(rule: str, *, actor: str, at: datetime, text: str) -> Event:
    """The event that says something about an alert."""
    return _act("comment", rule, actor, at, text, {})


def _act(kind: str, rule: str, actor: str, at: datetime, text: str | None, more: dict[str, object]) -> Event:
    return Event(at=at, kind=kind, actor=actor, text=text, detail={"rule": rule, **more})
