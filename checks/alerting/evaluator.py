"""What one evaluation of a growing log comes to: a board, the records to write and the notices to deliver."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from checks.alerting.alert_event import (
    ACTS,
    ALERT,
    FINDING,
    act_of,
    alert_event,
    alert_of,
    changed_findings,
    described,
    sentence,
    status_of,
)
from checks.alerting.rule import RANKING, Observation, Rule, observe
from checks.alerts import Board, Transition, advance, rebuilt
from checks.finding import Status
from checks.report import Report
from collector.records import Event

KINDS = (ALERT, FINDING, *ACTS)
"""Kinds of events that a board is made from."""


class Evaluated(NamedTuple):
    """What came of one evaluation."""

    at: datetime
    report: Report
    seen: Mapping[str, Observation]
    """What it says of each rule."""
    board: Board
    transitions: tuple[Transition, ...]
    records: tuple[Event, ...]
    """Findings and alerts to write, in this order."""
    notices: tuple[dict[str, object], ...]
    """What is to be delivered."""


class Evaluator:
    """Holds the board between evaluations. It has no clock and does no input or output."""

    def __init__(self, rules: Sequence[Rule], *, window: str, actor: str, incident_window_s: float) -> None:
        """`window` is the name of the window that every number is of; `actor` writes the records."""
        self._rules = rules
        self._window = window
        self._actor = actor
        self._incident_window_s = incident_window_s
        self._statuses: dict[str, Status] = {}
        self.board = Board()
        """Where every alert stands."""

    def restore(self, events: Iterable[Event]) -> None:
        """Takes the board up where the events of `KINDS`, oldest first, leave it."""
        known = [*events]
        self._statuses = dict(status for event in known if (status := status_of(event)) is not None)
        self.board = rebuilt([alert for event in known if (alert := alert_of(event)) is not None])

    def evaluate(self, report: Report, events: Iterable[Event], at: datetime, *, took_s: float = 0.0) -> Evaluated:
        """One evaluation; `events` are those not given before, after `restore` all of them once more.

        A pause no longer than twice what an evaluation takes is no gap.
        """
        rules = [rule._replace(gap_s=max(rule.gap_s, 2 * took_s)) for rule in self._rules]
        acts = [act for event in events if (act := act_of(event)) is not None]
        seen = {rule.name: observe(rule, report) for rule in rules}
        self.board, transitions = advance(self.board, rules, seen, acts, at, incident_window_s=self._incident_window_s)
        findings = changed_findings(report, self._statuses, at, window=self._window, actor=self._actor)
        self._statuses |= {finding.check: finding.status for finding in report.findings}
        alerts = [alert_event(each, window=self._window, actor=self._actor) for each in transitions]
        notices = tuple(self._notice(each, report) for each in transitions if each.notable)
        return Evaluated(at, report, seen, self.board, transitions, (*findings, *alerts), notices)

    def _notice(self, transition: Transition, report: Report) -> dict[str, object]:
        ranking = next((each for each in report.findings if each.check == RANKING and each.status != "no_data"), None)
        return {
            "at": transition.at,
            "store": report.source.path,
            "text": sentence(transition, window=self._window),
            **described(transition, window=self._window),
            "began_at": transition.after.began_at or transition.before.began_at,
            "acked_by": transition.after.acked_by,
            "ranking": None if ranking is None else ranking.summary,
            "check_next": transition.observed.check_next,
        }
