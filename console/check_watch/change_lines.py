"""What changed at an evaluation as plain lines, and a whole evaluation as one line of JSON."""

from collections.abc import Iterator

import msgspec

from checks.alerting.alert import Alert
from checks.alerting.alert_event import described, finite, place
from checks.alerting.delivery import Counts
from checks.alerting.evaluator import Evaluated
from checks.alerting.incident import Incident
from checks.alerting.rule import Observation
from checks.alerts import Transition
from checks.finding import Evidence
from checks.readers.store_window import Window
from checks.report import Report, as_json
from collector.terminal_text import terminal_safe
from console.check_report.statuses import tally
from console.format import number_text

JSON_FAULTS = 20
"""Most faults of one finding in a line of JSON; the rest is counted in `evidence_omitted`."""

TIED = 3
"""Most names of a tie."""


def change_lines(evaluated: Evaluated, window: Window, *, tally_before: str | None) -> Iterator[str]:
    """A line for each alert that changed its state, and one when as many findings are no longer of each status."""
    at = f"{evaluated.at:%H:%M:%SZ}"
    for transition in evaluated.transitions:
        if _is_news(transition):
            yield terminal_safe(f"{at}  {change_text(transition, window)}")
    now = tally(evaluated.report.findings)
    if now != tally_before:
        counts = evaluated.report.counts
        yield (
            f"{at}  {now}, over {window.name}: {number_text(counts.turns, 'turns')}, "
            f"{number_text(counts.sessions, 'sessions')}, {number_text(counts.tokens, 'tokens')}"
        )


def change_text(transition: Transition, window: Window) -> str:
    """One change: state and severity, the alert, the number and its threshold, the incident and the place."""
    after, incident = transition.after, transition.incident
    word = "not watched any more" if transition.change == "dropped" else state_word(after)
    parts = [f"{word}  {after.rule}", value_text(transition.observed)]
    parts.append(f"over {window.name}")
    if incident is not None:
        parts.append(f"incident {incident.incident}, first {first_mover_text(incident)}")
    if transition.observed.evidence is not None and after.state in ("pending", "firing"):
        parts.append(place_text(transition.observed.evidence))
    return "  ".join(part for part in parts if part)


def state_word(alert: Alert) -> str:
    """The state in a word, with the severity where it counts."""
    shown = alert.shown.replace("_", " ").upper()
    if alert.shown == "silenced" and alert.silenced_until is not None:
        return f"SILENCED until {alert.silenced_until:%Y-%m-%d %H:%MZ} ({alert.state}, {alert.severity})"
    if alert.shown == "acked":
        return f"ACKED by {alert.acked_by} ({alert.severity})"
    return f"{shown} {alert.severity}" if alert.state in ("pending", "firing", "recovering") else shown


def value_text(seen: Observation) -> str:
    """The value and the threshold."""
    if seen.value is None:
        return ""
    unit = seen.unit
    limit = "" if seen.threshold is None else f" (threshold {number_text(seen.threshold, unit.partition(' ')[0])})"
    return number_text(seen.value, unit) + limit


def first_mover_text(incident: Incident) -> str:
    """The incident's title, with a long tie cut short."""
    tied = incident.title.split(" = ")
    more = f" and {len(tied) - TIED} more" if len(tied) > TIED else ""
    return " = ".join(tied[:TIED]) + more


def place_text(evidence: Evidence) -> str:
    """Where the first fault is."""
    names = ("adapter", "group_id", "session_id", "turn", "token_index", "step")
    words = {"group_id": "group", "session_id": "session", "token_index": "token"}
    held = [(words.get(name, name), getattr(evidence, name)) for name in names]
    return " · ".join(f"{name} {value}" for name, value in held if value is not None)


def json_line(evaluated: Evaluated, window: Window, delivery: Counts, unwritten: int) -> bytes:
    """The whole evaluation: the report, every alert, what changed, the incidents, and the window all numbers are of."""
    report = msgspec.json.decode(as_json(_short(evaluated.report)))
    whole = {
        "at": evaluated.at,
        "window": window_json(window),
        **report,
        "alerts": [_alert_json(alert, evaluated) for alert in evaluated.board.alerts.values()],
        "changes": [described(each, window=window.name) for each in evaluated.transitions],
        "incidents": [msgspec.to_builtins(each) | {"title": each.title} for each in evaluated.board.incidents],
        "delivery": delivery,
        "unwritten": unwritten,
    }
    return msgspec.json.encode(whole) + b"\n"


def window_json(window: Window) -> dict[str, object]:
    """The window as JSON."""
    return {"name": window.name, "seconds": window.seconds, "turns": window.turns}


def _alert_json(alert: Alert, evaluated: Evaluated) -> dict[str, object]:
    incident, seen = evaluated.board.incident_of(alert), evaluated.seen[alert.rule]
    return msgspec.to_builtins(alert) | {
        "shown": alert.shown,
        "first_mover": None if incident is None else incident.title,
        "check": seen.check,
        "value": finite(seen.value),
        "unit": seen.unit,
        "threshold": finite(seen.threshold),
        "evidence": None if seen.evidence is None else place(seen.evidence),
    }


def _short(report: Report) -> Report:
    findings = tuple(
        msgspec.structs.replace(
            each,
            evidence=each.evidence[:JSON_FAULTS],
            evidence_omitted=each.evidence_omitted + max(0, len(each.evidence) - JSON_FAULTS),
        )
        for each in report.findings
    )
    return msgspec.structs.replace(report, findings=findings)


def _is_news(transition: Transition) -> bool:
    """Whether a person wants a line: not for one more evaluation of the same state, nor for what was never at fault."""
    before, after = transition.before, transition.after
    if transition.change != "moved":
        return True
    quiet = ("no_data", "ok")
    return before.shown != after.shown and not (before.state in quiet and after.state in quiet)
