"""Alerts that began together are one incident; what moved first is its title."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from checks.alerting.alert import Alert


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts whose onsets fall into one window."""

    incident: int
    """Its number, dense from 1."""
    began_at: datetime
    """The first onset."""
    onsets: dict[str, datetime]
    """Alert to when it began, first mover first."""

    @property
    def title(self) -> str:
        """The first mover; several that began at one time are a tie."""
        first = [rule for rule, onset in self.onsets.items() if onset == self.began_at]
        return " = ".join(first)


def joined(incidents: Sequence[Incident], alert: Alert, window_s: float) -> tuple[Alert, tuple[Incident, ...]]:
    """An alert that has just fired, as a part of the incident its onset falls into, else of a new one."""
    assert alert.began_at is not None
    window = timedelta(seconds=window_s)
    near = [each for each in incidents if abs(alert.began_at - each.began_at) <= window]
    number = near[-1].incident if near else max((each.incident for each in incidents), default=0) + 1
    alert = msgspec.structs.replace(alert, incident=number)
    return alert, with_onset(incidents, alert)


def with_onset(incidents: Iterable[Incident], alert: Alert) -> tuple[Incident, ...]:
    """The incidents with the alert's onset in its own."""
    assert alert.incident is not None
    assert alert.began_at is not None
    by_number = {each.incident: each for each in incidents}
    held = by_number.get(alert.incident)
    onsets = {} if held is None else dict(held.onsets)
    onsets[alert.rule] = min(alert.began_at, onsets.get(alert.rule, alert.began_at))
    ordered = dict(sorted(onsets.items(), key=lambda item: (item[1], item[0])))
    by_number[alert.incident] = Incident(incident=alert.incident, began_at=min(ordered.values()), onsets=ordered)
    return tuple(by_number[number] for number in sorted(by_number))


def remembered(
    incidents: Sequence[Incident], alerts: Sequence[Alert], now: datetime, window_s: float
) -> tuple[Incident, ...]:
    """The incidents that are not over, may still be joined, or give the next one its number."""
    open_ones = {alert.incident for alert in alerts if alert.alarming}
    onsets = [alert.began_at for alert in alerts if alert.began_at is not None and not alert.alarming]
    joinable = min([now, *onsets]) - timedelta(seconds=window_s)
    last = incidents[-1:]
    return tuple(each for each in incidents if each in last or each.incident in open_ones or each.began_at >= joinable)
