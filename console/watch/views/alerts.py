"""What the alerts screen shows: every alert, grouped by incident, and one of them in detail."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from checks.alerting.alert_event import ALERT
from checks.alerting.incident import Incident
from checks.check import Check
from checks.suite import CHECKS
from collector.records import Event
from console.watch.evaluator_lock import evaluator_running
from console.watch.frame.filter import Field, Fields, read_filter
from console.watch.held import Held
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.views.alert_board import Standing, standing
from console.watch.views.alert_lines import AlertLine, line_of, place_of
from console.watch.views.place import Fault, fault_of
from console.watch.views.signal_findings import SignalChecks, Thresholds, shared_checks
from console.watch.widgets.palette import STATES, State

FIELDS: Fields = {
    "rule": Field("rule"),
    "check": Field("check"),
    "state": Field("shown"),
    "sev": Field("severity", words={"crit": "fail"}),
    "adapter": Field("adapter"),
    "incident": Field("incident", "number"),
    "who": Field("who"),
    "value": Field("value", "number"),
}
"""What the list can be filtered by."""
EVIDENCE = 12
"""Faults that the detail shows."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts that began together, or those of no incident."""

    incident: int | None
    title: str
    """The first mover; several that began at one time are joined by `=`."""
    began_at: datetime | None
    alerts: tuple[AlertLine, ...]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to an alert or its incident."""

    at: datetime
    what: str
    who: str | None
    text: str | None


class AlertDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen alert."""

    line: AlertLine
    first_mover: str | None
    """Title of its incident."""
    reads: str
    """What the check said when the alert last moved."""
    defines: str | None
    """What the check reports, from its manual page."""
    check_next: tuple[str, ...]
    """What the check says of what is read now, else what its manual page says."""
    evidence: tuple[Fault, ...]
    """Worst first."""
    evidence_of: str
    """Where the evidence is from."""
    evidence_total: int | None
    """None where the check takes tokens that are not read here: it may have found more than its records name."""
    history: tuple[tuple[datetime, float | None], ...]
    """The value whenever the alert moved."""
    timeline: tuple[Moment, ...]
    """Oldest first."""


class AlertsAsk(Ask, frozen=True, kw_only=True):
    """Which alerts, and which one in detail."""

    looks: int = 0
    """How often an evaluator was seen to come or go: each time it is asked anew."""


class AlertsView(View, frozen=True, kw_only=True):
    """Every alert."""

    groups: tuple[Group, ...]
    """Incidents, the newest first; then the alerts of none."""
    counts: dict[State, int]
    ok: int
    """Rules that are quiet; they are not listed."""
    silences_end: datetime | None
    """When the first silence ends."""
    evaluating: bool | None
    """Whether somebody evaluates now; None where that cannot be told."""
    store: str | None
    """Where an evaluator is looked for; None for a log, and in a replay."""
    evaluated_at: datetime | None
    """When an evaluator last wrote; it writes only what changed."""
    window: str | None
    unreadable: int
    """Alert events that nothing can be read from."""
    detail: AlertDetail | None


class AlertsBuilder:
    """Makes the view; the evidence is that of the checks where they can be run on what is held."""

    def __init__(self, checks: SignalChecks | None = None) -> None:
        self._checks = checks or SignalChecks()

    def build(self, held: Held, ask: Ask, log: OpenLog) -> AlertsView:
        """All alerts; the detail of the selected rule, else of the gravest."""
        del log
        now = held.replayed_at or held.read_at
        store = held.source.path if held.source.format == "store" and held.replayed_at is None else None
        stands = standing(held)
        lines = [line_of(alert, stands, now) for alert in stands.board.alerts.values()]
        wanted = read_filter(ask.filter, FIELDS)
        bad = [line for line in lines if line.shown != "OK"]
        listed = [line for line in bad if wanted.matches(msgspec.structs.asdict(line))]
        groups = _groups(listed, stands.board.incidents)
        chosen = _chosen(groups, ask.selected)
        counts: dict[State, int] = {state: sum(line.state == state for line in listed) for state in STATES}
        return AlertsView(
            groups=groups,
            counts={state: counts[state] for state in STATES if counts[state]},
            ok=len(lines) - len(bad),
            silences_end=min((line.until for line in listed if line.until is not None), default=None),
            evaluating=None if store is None else evaluator_running(Path(store)),
            store=store,
            evaluated_at=stands.evaluated_at,
            window=stands.window,
            unreadable=stands.unreadable,
            detail=None if chosen is None else self._detail(chosen, stands, held),
        )

    def _detail(self, line: AlertLine, stands: Standing, held: Held) -> AlertDetail:
        written = stands.written.get(line.rule, ())
        alerts = [event for event in written if event.kind == ALERT]
        incident = next((each for each in stands.board.incidents if each.incident == line.incident), None)
        finding = self._checks.of_check(held, line.check or "")
        seen = () if finding is None else finding.evidence
        evidence = [fault_of(each) for each in seen[:EVIDENCE]] or _told(alerts)
        check = next((each for each in CHECKS if each.name == line.check), None)
        total = len(seen) + finding.evidence_omitted if finding is not None and seen else len(evidence)
        return AlertDetail(
            line=line,
            first_mover=None if incident is None else incident.title,
            reads=(stands.last[line.rule].text or "").partition(": ")[2],
            defines=None if check is None else _part(check.manual, "Threshold:"),
            check_next=(() if finding is None else finding.check_next) or _hints(check),
            evidence=tuple(evidence),
            evidence_of="what is read now" if seen else "the alert's own records",
            evidence_total=total if seen or (finding is not None and finding.status != "no_data") else None,
            history=tuple((event.at, _value(event)) for event in alerts),
            timeline=tuple(_timeline(written, incident, line.rule)),
        )


def topic(thresholds: Thresholds | None = None) -> Topic[Ask]:
    """The topic with the thresholds of a configuration."""
    return Topic("alerts", AlertsBuilder(shared_checks(thresholds)).build, tells_ages=True)


def _groups(lines: Sequence[AlertLine], incidents: Sequence[Incident]) -> tuple[Group, ...]:
    def sorted_lines(number: int | None) -> tuple[AlertLine, ...]:
        its = [line for line in lines if line.incident == number]
        return tuple(sorted(its, key=lambda line: (STATES.index(line.state), line.began_at or line.at, line.rule)))

    titles = {each.incident: each for each in incidents}
    numbers = sorted({line.incident for line in lines if line.incident is not None}, reverse=True)
    groups = [
        Group(
            incident=number,
            title=titles[number].title if number in titles else "",
            began_at=titles[number].began_at if number in titles else None,
            alerts=sorted_lines(number),
        )
        for number in numbers
    ]
    if rest := sorted_lines(None):
        groups.append(Group(incident=None, title="of no incident", began_at=None, alerts=rest))
    return tuple(groups)


def _chosen(groups: Sequence[Group], selected: Sequence[str]) -> AlertLine | None:
    lines = [line for group in groups for line in group.alerts]
    return next((line for line in lines if line.rule in selected), lines[0] if lines else None)


def _told(alerts: Sequence[Event]) -> list[Fault]:
    """The faults that the evaluator named whenever the alert moved, newest first, each once."""
    places = dict.fromkeys(place for event in reversed(alerts) if (place := place_of(event)) is not None)
    return [Fault(place=place, text=None) for place in places][:EVIDENCE]


def _value(event: Event) -> float | None:
    found = (event.detail or {}).get("value")
    return float(found) if isinstance(found, int | float) else None


def _timeline(written: Sequence[Event], incident: Incident | None, rule: str) -> list[Moment]:
    """The incident's onsets, then everything about this alert, in the order of time."""
    onsets = {} if incident is None else {name: at for name, at in incident.onsets.items() if name != rule}
    moments = [Moment(at=at, what=f"{name} began", who=None, text=None) for name, at in onsets.items()]
    for event in written:
        detail = event.detail or {}
        if event.kind != ALERT:
            until = detail.get("until")
            what = {"acknowledge": "acknowledged", "silence": f"silenced until {until}"}.get(event.kind, "comment")
            moments.append(Moment(at=event.at, what=what, who=event.actor, text=event.text))
        elif detail.get("change") != "moved" or detail.get("state") != detail.get("previous_state"):
            moments.append(Moment(at=event.at, what=f"{rule} {detail.get('state')}", who=None, text=None))
    return sorted(moments, key=lambda moment: moment.at)


def _hints(check: Check | None) -> tuple[str, ...]:
    """What a check's manual page says to look at next."""
    said = None if check is None else _part(check.manual, "Check next:")
    return () if said is None else tuple(each.strip() for each in said.removesuffix(".").split(";"))


def _part(manual: str, heading: str) -> str | None:
    """One paragraph of a manual page."""
    _, found, rest = manual.partition(f"\n{heading}")
    if not found:
        return None
    lines: list[str] = []
    for line in rest.splitlines():
        if lines and line.partition(":")[1] and line[:1].isupper() and line.partition(":")[0].istitle():
            break
        lines.append(line.strip())
    said = " ".join(lines).strip()
    return said.partition(" Check next:")[0]


TOPIC = topic()
