"""One alert and how an evaluation, a person or the time moves it on. Pure: no clock, no I/O."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from checks.alerting.rule import Level, Rule, Severity

State = Literal["no_data", "ok", "pending", "firing", "recovering"]
Shown = Literal["no_data", "ok", "pending", "firing", "recovering", "acked", "silenced"]


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one rule. All of it stands in the last event about it, so that a restart loses nothing."""

    rule: str
    """The rule's name, which is the alert's."""
    state: State = "no_data"
    """Nothing is ok before it was seen to be."""
    severity: Severity = "warn"
    """The gravest it has been since it fired."""
    since: datetime | None = None
    """When `state` began."""
    seen_at: datetime | None = None
    """While pending or recovering: the last evaluation that counted."""
    evaluations: int = 0
    """While pending or recovering: evaluations in a row that counted."""
    counted_from: datetime | None = None
    """While pending or recovering: the first of them."""
    began_at: datetime | None = None
    """The onset: the first evaluation at fault, while it is not over."""
    raised_at: datetime | None = None
    """When it fired, or became graver: an acknowledgement before that is not of this."""
    alarming: bool = False
    """Whether it has fired and has not recovered; it stays so while there is no data."""
    incident: int | None = None
    """The incident it belongs to."""
    acked_at: datetime | None = None
    """When it was acknowledged; gone when it has recovered or becomes graver."""
    acked_by: str | None = None
    """Who acknowledged it."""
    silenced_at: datetime | None = None
    """When the last silence was asked for."""
    silenced_until: datetime | None = None
    """When that silence ends."""
    silenced_by: str | None = None
    """Who asked for it."""

    @property
    def shown(self) -> Shown:
        """The state as a person sees it; a silence goes before an acknowledgement."""
        if self.silenced_until is not None and self.state != "ok":
            return "silenced"
        if self.alarming and self.acked_at is not None and self.state != "no_data":
            return "acked"
        return self.state


class Act(NamedTuple):
    """What a person did about an alert."""

    kind: Literal["acknowledge", "silence", "comment"]
    rule: str
    at: datetime
    actor: str
    until: datetime | None = None
    """For a silence: when it ends; one that is over ends an earlier one."""


def told(alert: Alert, acts: Sequence[Act]) -> Alert:
    """The alert after what people did, in whatever order and however often it is told."""
    for act in acts:
        if act.rule != alert.rule:
            continue
        if act.kind == "acknowledge":
            alert = _acknowledged(alert, act)
        elif act.kind == "silence" and (alert.silenced_at is None or act.at > alert.silenced_at):
            alert = msgspec.structs.replace(alert, silenced_at=act.at, silenced_until=act.until, silenced_by=act.actor)
    return alert


def lapsed(alert: Alert, now: datetime) -> Alert:
    """The alert without a silence that has ended by `now`."""
    if alert.silenced_until is None or alert.silenced_until > now:
        return alert
    return msgspec.structs.replace(alert, silenced_until=None)


def stepped(alert: Alert, rule: Rule, level: Level, now: datetime) -> Alert:
    """The alert after one evaluation."""
    if level == "no_data":
        return _unseen(alert, now)
    if level in ("warn", "fail"):
        return _at_fault(alert, rule, level, now)
    if not alert.alarming:
        return _moved(alert, "ok", now, began_at=None, raised_at=None, incident=None)
    if level == "between":
        return _moved(alert, "firing", now)
    return _recovering(alert, rule, now)


def _acknowledged(alert: Alert, act: Act) -> Alert:
    if not alert.alarming or alert.raised_at is None or act.at < alert.raised_at:
        return alert
    if alert.acked_at is not None and alert.acked_at <= act.at:
        return alert
    return msgspec.structs.replace(alert, acked_at=act.at, acked_by=act.actor)


def _moved(alert: Alert, state: State, now: datetime, **changes: object) -> Alert:
    """The alert in a state, with the progress towards another one forgotten."""
    since = alert.since if alert.state == state else now
    forgotten = {"evaluations": 0, "counted_from": None, "seen_at": None}
    return msgspec.structs.replace(alert, state=state, since=since, **(forgotten | changes))


def _unseen(alert: Alert, now: datetime) -> Alert:
    kept = {} if alert.alarming else {"began_at": None}
    return alert if alert.state == "no_data" else _moved(alert, "no_data", now, **kept)


def _at_fault(alert: Alert, rule: Rule, level: Severity, now: datetime) -> Alert:
    if alert.alarming:
        alert = _graver(alert, level, now)
        return _moved(alert, "firing", now)
    began_at = alert.began_at if alert.state == "pending" and not _nobody_looked(alert, rule, now) else None
    pending = _counted(alert, "pending", rule, now)
    pending = msgspec.structs.replace(pending, severity=level, began_at=began_at or now)
    if not _long_enough(pending, now, rule.for_evaluations, rule.for_s):
        return pending
    return _moved(pending, "firing", now, alarming=True, raised_at=now)


def _graver(alert: Alert, level: Severity, now: datetime) -> Alert:
    if level == "warn" or alert.severity == "fail":
        return alert
    return msgspec.structs.replace(alert, severity=level, raised_at=now, acked_at=None, acked_by=None)


def _recovering(alert: Alert, rule: Rule, now: datetime) -> Alert:
    recovering = _counted(alert, "recovering", rule, now)
    if not _long_enough(recovering, now, rule.recover_evaluations, rule.recover_s):
        return recovering
    over = {"began_at": None, "raised_at": None, "incident": None, "acked_at": None, "acked_by": None}
    return _moved(recovering, "ok", now, alarming=False, **over)


def _counted(alert: Alert, state: State, rule: Rule, now: datetime) -> Alert:
    """The alert one evaluation further in a state that has to last."""
    begins = alert.state != state or _nobody_looked(alert, rule, now)
    return msgspec.structs.replace(
        alert,
        state=state,
        since=now if alert.state != state else alert.since,
        evaluations=1 if begins else alert.evaluations + 1,
        counted_from=now if begins else alert.counted_from,
        seen_at=now,
    )


def _nobody_looked(alert: Alert, rule: Rule, now: datetime) -> bool:
    return alert.seen_at is not None and now - alert.seen_at > timedelta(seconds=rule.gap_s)


def _long_enough(alert: Alert, now: datetime, evaluations: int, seconds: float) -> bool:
    assert alert.counted_from is not None
    return alert.evaluations >= evaluations and (now - alert.counted_from).total_seconds() >= seconds
