"""Builders for alert timelines: a rule, a second by number, and evaluations spelled out in letters."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from checks.alerting.alert import Act, Alert
from checks.alerting.config import AlertsConfig, RuleConfig
from checks.alerting.rule import Level, Observation, Rule, rules_of
from checks.alerts import Board, Transition, advance

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
LEVELS: dict[str, Level] = {"n": "no_data", "g": "good", "b": "between", "w": "warn", "f": "fail"}
INCIDENT_S = 600.0


def second(number: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=number)


def rule(name: str = "a", **changes: object) -> Rule:
    """A rule that fires and recovers after two evaluations."""
    config = AlertsConfig(rules={name: RuleConfig(metric="max_w", above=5.0)}, default_rules=False)
    return rules_of(config, [])[0]._replace(**changes)


def act(kind: str, at: float, *, until: float | None = None, rule: str = "a", actor: str = "ana") -> Act:
    """What a person did."""
    return Act(kind, rule, second(at), actor, None if until is None else second(until))  # type: ignore[arg-type]


class Told(NamedTuple):
    """A timeline as it went."""

    board: Board
    alerts: list[Alert]
    transitions: list[Transition]

    @property
    def shown(self) -> list[str]:
        """The state after each evaluation."""
        return [alert.shown for alert in self.alerts]

    @property
    def changes(self) -> list[str]:
        """What changed, less progress."""
        return [each.change for each in self.transitions if each.change != "moved"]

    @property
    def notices(self) -> list[str]:
        """What somebody is told of."""
        return [each.change for each in self.transitions if each.notable]


def told(
    letters: str, acts: Sequence[Act] = (), *, every: float = 10, board: Board | None = None, **of_rule: object
) -> Told:
    """One evaluation a letter, the first at second 0; a dot is a pause. An act is given at the next evaluation."""
    watched, board = rule(**of_rule), board or Board()  # type: ignore[arg-type]
    alerts: list[Alert] = []
    transitions: list[Transition] = []
    given: list[Act] = []
    for number, letter in enumerate(letters):
        if letter == ".":
            continue
        now = second(number * every)
        new = [each for each in acts if each.at <= now and each not in given]
        given += new
        seen = {watched.name: Observation(LEVELS[letter])}
        board, changed = advance(board, [watched], seen, new, now, incident_window_s=INCIDENT_S)
        alerts.append(board.alerts[watched.name])
        transitions += changed
    return Told(board, alerts, transitions)
