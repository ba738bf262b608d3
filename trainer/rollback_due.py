"""Which adapters are to be rolled back for an alert that fires: a decision of pure facts. Imports no torch."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from checks.alerting.alert import Alert
from checks.alerting.alert_event import alert_of
from checks.alerting.rule import Rule
from collector.errors import UserError
from collector.records import Event
from collector.store.registry_rows import RegistrySnapshot
from trainer.adapter_rules import Refused, rollback_target
from trainer.adapter_standing import Standing, shown, standing
from trainer.rollback_config import RollbackConfig


class RollbackDue(NamedTuple):
    """One adapter that an alert takes back."""

    adapter: str
    version: int
    """The live version that is found bad."""
    to: int
    rule: str
    reason: str
    """For the audit: the alert's own text."""


class NotDue(NamedTuple):
    """A configured alert that fires and rolls nothing back, with the reason; a person has to look."""

    rule: str
    reason: str


class Due(NamedTuple):
    """What the alerts that fire come to."""

    rollbacks: tuple[RollbackDue, ...]
    refused: tuple[NotDue, ...]


class _Firing(NamedTuple):
    alert: Alert
    adapter: str | None
    version: int | None
    text: str


def refuse_unknown(config: RollbackConfig, rules: Sequence[Rule]) -> None:
    """Every alert that is named in the settings can fire."""
    known = sorted({name for rule in rules for name in (rule.name, rule.check) if name is not None})
    for name in config.on_alerts:
        if name not in known:
            raise UserError(
                f"[trainer.rollback] on_alerts: no alert rule or check {name!r}, expected some of {', '.join(known)}"
            )


def rollback_due(events: Iterable[Event], config: RollbackConfig, snapshot: RegistrySnapshot, *, now: datetime) -> Due:
    """The rollbacks that are due by the alert events of a store, oldest first.

    An alert counts when it is configured and has been firing for `after_s`, neither acknowledged nor silenced, and
    began after the live version was routed. It is of the adapter that its evidence names; without a name, of
    the only adapter there is. One that names a version which takes no sessions, such as a candidate that was not
    proved, takes back nothing. A version is rolled back once: if a person returned to it, it stays.
    """
    rollbacks: dict[str, RollbackDue] = {}
    refused: list[NotDue] = []
    for firing in _firing(events, config, now):
        name = firing.adapter or (snapshot.adapters[0].adapter if len(snapshot.adapters) == 1 else None)
        if name is None or all(known.adapter != name for known in snapshot.adapters):
            named = f"{name!r}, which is not registered" if name else "no adapter, and there are several"
            refused.append(NotDue(firing.alert.rule, f"it names {named}; look at it and roll back by hand"))
            continue
        now_standing = standing(snapshot, name)
        if name in rollbacks or _is_older(firing.alert, now_standing):
            continue
        if firing.version is not None and firing.version != now_standing.live.version:
            about = f"{name}@{firing.version}, and sessions go to {shown(now_standing.live)}"
            refused.append(NotDue(firing.alert.rule, f"it is about {about}"))
            continue
        said = _refusal(snapshot, now_standing)
        if said is not None:
            refused.append(NotDue(firing.alert.rule, said))
            continue
        live, target = now_standing.live, rollback_target(snapshot, name)
        reason = f"alert {firing.alert.rule} fires: {firing.text}"
        rollbacks[name] = RollbackDue(name, live.version, target.version, firing.alert.rule, reason)
    return Due(tuple(rollbacks.values()), tuple(refused))


def _firing(events: Iterable[Event], config: RollbackConfig, now: datetime) -> list[_Firing]:
    """The configured alerts that fire for long enough and that nobody has taken in hand."""
    newest: dict[str, _Firing] = {}
    for event in events:
        alert = alert_of(event)
        check = (event.detail or {}).get("check")
        if alert is None or not {alert.rule, check} & {*config.on_alerts}:
            continue
        # An alert's later events need not name the adapter again: they may have no evidence.
        before = newest.get(alert.rule)
        known = before is not None and before.alert.raised_at == alert.raised_at and alert.raised_at is not None
        adapter = event.adapter or (before.adapter if before is not None and known else None)
        version = event.version if event.adapter or not known or before is None else before.version
        text = before.text if before is not None and known else event.text or alert.rule
        newest[alert.rule] = _Firing(alert, adapter, version, text)
    return [each for each in newest.values() if _counts(each.alert, config, now)]


def _counts(alert: Alert, config: RollbackConfig, now: datetime) -> bool:
    if not alert.alarming or alert.state != "firing" or alert.raised_at is None or alert.acked_at is not None:
        return False
    silenced = alert.silenced_until is not None and alert.silenced_until > now
    return not silenced and now - alert.raised_at >= timedelta(seconds=config.after_s)


def _is_older(alert: Alert, now: Standing) -> bool:
    return alert.began_at is None or alert.began_at <= now.live_since


def _refusal(snapshot: RegistrySnapshot, now: Standing) -> str | None:
    """Why the live version is not rolled back."""
    name, number = now.adapter.adapter, now.live.version
    gone = {
        (row.detail or {}).get("from") for row in snapshot.decisions if (row.action, row.adapter) == ("rollback", name)
    }
    if number in gone:
        return f"{shown(now.live)} was rolled back once and a person returned to it; it stays until a person decides"
    try:
        rollback_target(snapshot, name)
    except Refused as refusal:
        return str(refusal)
    return None
