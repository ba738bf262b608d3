"""Alert events as the evaluator really writes them: a report every half minute, spelled out in letters."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import polars as pl

from checks.alerting.config import AlertsConfig
from checks.alerting.evaluator import Evaluator
from checks.alerting.rule import rules_of
from checks.finding import Evidence, Finding, Status, Threshold
from checks.log import Source
from checks.report import Counts, Report
from collector.records import Event
from console.watch.held import TABLES

START = datetime(2026, 11, 29, 11, 30, tzinfo=UTC)
EVERY_S = 30
STATUSES: Mapping[str, Status] = {"f": "fail", "w": "warn", "g": "ok", "n": "no_data"}


def evaluated(
    letters: Mapping[str, str], *, acts: Sequence[Event] = (), evidence: Mapping[str, Evidence] | None = None
) -> list[Event]:
    """Every event of the evaluations, acts among them; check to its statuses, a letter each, the last goes on."""
    rules = rules_of(AlertsConfig(), [*letters])
    evaluator = Evaluator(rules, window="the last 1 h", actor="evaluator", incident_window_s=600)
    written: list[Event] = []
    given: list[Event] = []
    for number in range(max(map(len, letters.values()))):
        at = START + timedelta(seconds=EVERY_S * number)
        new = [act for act in acts if act.at <= at and act not in given]
        given += new
        findings = [
            _finding(check, said[min(number, len(said) - 1)], (evidence or {}).get(check))
            for check, said in letters.items()
        ]
        report = Report(
            source=Source(path="s", format="store"),
            counts=Counts(turns=1, sessions=1, tokens=1),
            findings=tuple(findings),
        )
        written += [*new, *evaluator.evaluate(report, new, at).records]
    return written + [act for act in acts if act not in given]


def _finding(check: str, letter: str, evidence: Evidence | None) -> Finding:
    status = STATUSES[letter]
    if status == "no_data":
        return Finding.no_data(check, "nothing was observed")
    value = {"fail": 0.3, "warn": 0.05, "ok": 0.01}[status]
    shown = (evidence,) if evidence is not None and status != "ok" else ()
    return Finding(
        check=check,
        status=status,
        value=value,
        unit="nats",
        threshold=Threshold(warn=0.03, fail=0.1),
        summary=f"mean {value}",
        evidence=shown,
    )


def as_frame(events: Sequence[Event]) -> pl.DataFrame:
    """The events as they are held."""
    rows = [
        msgspec.structs.asdict(event)
        | {"detail": None if event.detail is None else msgspec.json.encode(event.detail).decode(), "seq": number}
        for number, event in enumerate(events, 1)
    ]
    schema = dict(TABLES["events"])
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)
