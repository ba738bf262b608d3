"""What the signals screen shows: one adapter's eight lanes, what moved first, its alerts, untrainable share and log."""

import math
from collections.abc import Iterable
from datetime import datetime

import msgspec
import polars as pl

from checks.finding import Finding
from collector.records import Severity
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.views.alert_board import standing, state_of
from console.watch.views.alert_lines import AlertLine, alert_lines
from console.watch.views.fallen_lanes import FallenLanes
from console.watch.views.first_mover import FirstMover, FrozenRanking
from console.watch.views.lane import Lane
from console.watch.views.levels import level
from console.watch.views.other_faults import OtherFaults, other_faults
from console.watch.views.signal_findings import CHECK_OF
from console.watch.views.signal_grading import AdapterTab, Grading, Gradings, adapter_tabs, newest_step
from console.watch.views.signal_lanes import LaneSource, signal_lanes
from console.watch.views.untrainable import Untrainable, UntrainableCounts
from console.watch.widgets.palette import STATES, State

SHOWN_STEPS = 240
"""Steps on the axis at first; more where the first mover lies further back."""
LOG_LINES = 20
"""Newest events that are shown."""


class SignalsAsk(Ask, frozen=True, kw_only=True):
    """Which adapter, and how much of its past."""

    steps: int = SHOWN_STEPS
    """Steps on the axis; 0 for all."""
    report: bool = True
    """Whether the numbers of the report are wanted too; nothing is drawn of them."""
    grading: int | None = None
    """The grading that is known of: the last one will do. None: grade what is shown."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event."""

    at: datetime
    severity: Severity
    actor: str | None
    kind: str
    text: str | None
    adapter: str | None
    session_id: str | None
    turn: int | None


class Graded(msgspec.Struct, frozen=True, kw_only=True):
    """What a check says of the adapter."""

    check: str
    status: str
    value: float | None
    unit: str
    summary: str


class SignalsView(View, frozen=True, kw_only=True):
    """One adapter."""

    adapter: str | None
    adapters: tuple[AdapterTab, ...]
    step: int | None
    """The newest step of any lane."""
    graded: int | None
    """The newest step that states, findings and ranking are of; curves may be ahead of them."""
    ungraded: bool = False
    """Whether they are of other curves than these, be it of the same steps."""
    axis: tuple[int, int]
    """First and last step that is drawn."""
    lanes: tuple[Lane, ...]
    """In the fixed order."""
    first_mover: FirstMover
    findings: tuple[Graded, ...]
    metrics: dict[str, float | None] | None
    """Those of the eight checks over everything held; None for a number that is none, and where they were not asked
    for."""
    tokens_share: float | None
    """How much of the turns the numbers of tokens are of; None: they are the trainer's own."""
    window: str | None
    """What all numbers are of; None for everything there is."""
    untrainable: Untrainable
    others: OtherFaults
    alerts: tuple[AlertLine, ...]
    """Gravest first."""
    log: tuple[LogLine, ...]
    """Oldest first."""


class SignalsBuilder:
    """Makes the view; holds the rankings that are frozen and whatever is still right."""

    def __init__(self, gradings: Gradings | None = None) -> None:
        self._gradings = gradings or Gradings()
        self._checks = self._gradings.checks
        self._frozen = FrozenRanking()
        self._untrainable = UntrainableCounts()
        self._lanes: Kept[tuple[Lane, ...]] = Kept()
        self._tabs: Kept[tuple[AdapterTab, ...]] = Kept()
        self._log: Kept[tuple[LogLine, ...]] = Kept()
        self._mover: Kept[FirstMover] = Kept()
        self._series: Kept[pl.DataFrame] = Kept()
        self._fallen = FallenLanes()
        self._others: Kept[OtherFaults] = Kept()

    def build(self, held: Held, ask: SignalsAsk, log: OpenLog) -> SignalsView:
        """One adapter of what is held; the first that moved where none is asked for."""
        whole = self._checks.series(held)
        known = None if ask.grading is None else self._gradings.last(held, ask.adapter)
        grading = known or self._gradings.made(held, ask.adapter)
        adapter, findings = grading.adapter, grading.findings
        series = self._series.of(
            (whole.series, adapter), lambda: whole.series.filter(pl.col("adapter").eq_missing(adapter))
        )
        mover = self._mover.of((grading.ranked, grading.falls, adapter), lambda: self._moved(grading))
        first = _first_step(series, mover, ask)
        alerted = _by_check(held)
        read, limits = held.tokens.share is not None, self._checks.thresholds
        source = LaneSource(series, findings, limits, mover, alerted, read, grading.suites)
        states = "|".join(f"{check} {state}" for check, state in sorted(alerted.items()))
        inputs = (series, mover, states, first, read, grading.suites, *findings.values())
        lanes = self._lanes.of(inputs, lambda: signal_lanes(source, first))
        newest = newest_step(series)
        return SignalsView(
            adapter=adapter,
            adapters=self._tabs.of(
                (whole.series, grading.ranked, grading.falls, held.registry),
                lambda: adapter_tabs(held, whole.series, grading.ranked, grading.falls),
            ),
            step=newest,
            graded=grading.step,
            ungraded=not grading.series.equals(series),
            axis=(first or 0, newest or 1),
            lanes=self._fallen.of(held, adapter, lanes, mover, log),
            first_mover=mover,
            findings=tuple(_graded(each) for each in findings.values()),
            metrics=_metrics(self._checks.over_all(held).values()) if ask.report else None,
            tokens_share=held.tokens.share,
            window=held.source.window,
            untrainable=self._untrainable.of(held.turns, adapter),
            others=self._others.of(
                (held.turns, held.events, held.tokens.breaks, held.tokens.drift), lambda: other_faults(held)
            ),
            alerts=alert_lines(held),
            log=self._log.of((held.events,), lambda: log_tail(held.events)),
        )

    def _moved(self, grading: Grading) -> FirstMover:
        """The ranking of one adapter; where held-out evaluation has no baseline, with what surely fell on it."""
        ranked = next((each for each in grading.ranked if each.adapter == grading.adapter), None)
        mover = FirstMover(unknown=tuple(CHECK_OF)) if ranked is None else self._frozen.of(ranked, grading.step)
        falls = grading.falls.get(grading.adapter, ())
        return msgspec.structs.replace(mover, falls=falls) if falls else mover


def topic(gradings: Gradings | None = None) -> Topic[SignalsAsk]:
    """The topic, with the gradings that are made beside it."""
    return Topic("signals", SignalsBuilder(gradings).build)


def _first_step(series: pl.DataFrame, mover: FirstMover, ask: SignalsAsk) -> int | None:
    """So many steps back, and far enough that the first onset is in sight."""
    if series.is_empty():
        return None
    least, last = series["step"].min(), series["step"].max()
    assert isinstance(least, int)
    assert isinstance(last, int)
    if not ask.steps:
        return least
    onset = last if mover.onset is None else mover.onset
    return max(least, min(last - ask.steps + 1, onset - (last - onset) // 4 - 8))


def _by_check(held: Held) -> dict[str, State]:
    """Check to the state of its gravest alert that is not ok."""
    now = standing(held)
    found: dict[str, State] = {}
    for rule, alert in now.board.alerts.items():
        check = (now.last[rule].detail or {}).get("check")
        state = state_of(alert)
        if not isinstance(check, str) or state in ("ok", "no_data"):
            continue
        if check not in found or STATES.index(state) < STATES.index(found[check]):
            found[check] = state
    return found


def _graded(finding: Finding) -> Graded:
    value = None if finding.value is None or not math.isfinite(finding.value) else float(finding.value)
    return Graded(check=finding.check, status=finding.status, value=value, unit=finding.unit, summary=finding.summary)


def _metrics(findings: Iterable[Finding]) -> dict[str, float | None]:
    """As the report has them; None for what is no finite number."""
    every = {name: value for finding in findings for name, value in finding.metrics.items()}
    return {name: float(value) if math.isfinite(value) else None for name, value in every.items()}


def log_tail(events: pl.DataFrame) -> tuple[LogLine, ...]:
    """The newest events."""
    names = ("at", "severity", "actor", "kind", "text", "adapter", "session_id", "turn")
    newest = events.drop_nulls("at").sort("at", maintain_order=True).tail(LOG_LINES)
    told = newest.select(names).with_columns(severity=level(), kind=pl.col("kind").fill_null("event"))
    return tuple(msgspec.convert(row, LogLine) for row in told.iter_rows(named=True))
