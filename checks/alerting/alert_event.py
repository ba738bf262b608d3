"""Alerts, findings and what people did about them, as `event` records and back."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from checks.alerting.alert import Act, Alert
from checks.alerts import Transition
from checks.finding import Evidence, Finding, Status
from checks.report import Report
from collector.records import Event

ALERT, FINDING = "alert", "finding"
ACTS = ("acknowledge", "silence", "comment")
_PLACE = ("session_id", "turn", "token_index", "group_id", "step", "adapter", "kind", "value")


def alert_event(transition: Transition, *, window: str, actor: str) -> Event:
    """The record of a transition. Its detail holds the whole alert, and no text of a model."""
    after, seen = transition.after, transition.observed
    detail = described(transition, window=window) | {"alert": msgspec.to_builtins(after)}
    return Event(
        at=transition.at,
        kind=ALERT,
        severity=after.severity if after.alarming else "info",
        adapter=seen.evidence.adapter if seen.evidence is not None else None,
        version=_version(seen.evidence),
        actor=actor,
        text=sentence(transition, window=window),
        detail=detail,
    )


def _version(evidence: Evidence | None) -> int | None:
    """The version that the evidence is about, where it says."""
    found = evidence.detail.get("version") if evidence is not None and evidence.detail else None
    return found if isinstance(found, int) else None


def described(transition: Transition, *, window: str) -> dict[str, object]:
    """What changed, with the numbers and the window they are of."""
    after, seen, incident = transition.after, transition.observed, transition.incident
    return {
        "rule": after.rule,
        "state": after.shown,
        "previous_state": transition.before.shown,
        "change": transition.change,
        "severity": after.severity,
        "check": seen.check,
        "value": finite(seen.value),
        "unit": seen.unit,
        "threshold": finite(seen.threshold),
        "window": window,
        "incident": None if incident is None else incident.incident,
        "first_mover": None if incident is None else incident.title,
        "evidence": None if seen.evidence is None else place(seen.evidence),
    }


def sentence(transition: Transition, *, window: str) -> str:
    """One line for a person."""
    words = {
        "fired": "fired",
        "graver": "became graver",
        "recovered": "recovered",
        "blind": "has no data any more and is not over",
        "sighted": "has data again and is not over",
        "silence_over": "is not silenced any more",
        "acked": f"acknowledged by {transition.after.acked_by}",
        "silenced": f"silenced by {transition.after.silenced_by}",
        "dropped": "is not watched any more",
        "moved": transition.after.shown.replace("_", " "),
    }
    said = f"; over {window}: {transition.observed.summary}" if transition.observed.summary else ""
    return f"{transition.after.rule} {words[transition.change]}{said}"


def changed_findings(
    report: Report, known: Mapping[str, Status], at: datetime, *, window: str, actor: str
) -> list[Event]:
    """A record of each finding whose status is not the known one."""
    return [
        _finding_event(finding, at, window, actor)
        for finding in report.findings
        if known.get(finding.check) != finding.status
    ]


def alert_of(event: Event) -> Alert | None:
    """The alert that an `alert` event holds; None where it holds none."""
    if event.kind != ALERT or event.detail is None:
        return None
    try:
        return msgspec.convert(event.detail.get("alert"), Alert)
    except msgspec.ValidationError:
        return None


def status_of(event: Event) -> tuple[str, Status] | None:
    """Check and status of a `finding` event."""
    if event.kind != FINDING or event.detail is None:
        return None
    try:
        return msgspec.convert((event.detail.get("check"), event.detail.get("status")), tuple[str, Status])
    except msgspec.ValidationError:
        return None


def act_of(event: Event) -> Act | None:
    """What a person did, of the event that says so; None where it names no alert or a silence has no end."""
    detail = event.detail or {}
    rule, until = detail.get("rule"), detail.get("until")
    if event.kind not in ACTS or not isinstance(rule, str):
        return None
    end = _time(until)
    if event.kind == "silence" and end is None:
        return None
    # The kind is one of ACTS, which are those of Act.
    return Act(event.kind, rule, event.at, event.actor or "somebody", end)  # pyright: ignore[reportArgumentType]


def place(evidence: Evidence) -> dict[str, object]:
    """Where a fault is, without what was said there."""
    found = {name: getattr(evidence, name) for name in _PLACE} | {"step": evidence.trainer_step}
    return {name: finite(value) for name, value in found.items() if value is not None}


# Any: any JSON value.
def finite(value: Any) -> Any:
    """The value; None for a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _finding_event(finding: Finding, at: datetime, window: str, actor: str) -> Event:
    threshold = finding.threshold
    detail: dict[str, object] = {
        "check": finding.check,
        "status": finding.status,
        "value": finite(finding.value),
        "unit": finding.unit,
        "threshold": None if threshold is None else {"warn": finite(threshold.warn), "fail": finite(threshold.fail)},
        "window": window,
        "faults": len(finding.evidence) + finding.evidence_omitted,
        "evidence": place(finding.evidence[0]) if finding.evidence else None,
        "missing": list(finding.missing),
    }
    grave = finding.status if finding.status in ("warn", "fail") else "info"
    return Event(
        at=at,
        kind=FINDING,
        severity=grave,
        adapter=finding.evidence[0].adapter if finding.evidence else None,
        actor=actor,
        text=f"{finding.check}: {finding.summary}; over {window}",
        detail=detail,
    )


def _time(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
