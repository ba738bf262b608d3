"""What the checks say of an adapter's signals and how they rank: most of the work of that screen, done beside it.

Curves follow every step; states, findings and the ranking follow as fast as they may, and say which step they are of.
"""

import itertools
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
import polars as pl

from checks.eval_points import stepped
from checks.eval_suites import suites_text
from checks.finding import Finding
from checks.ranking import Ranked
from console.watch.held import Held, Origin
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.views.falls import HELD_OUT, Falls, ToldFalls
from console.watch.views.signal_findings import SignalChecks

MOST_REST_S = 180.0
"""Of a long run a grading takes a second, and the view says which step it is of."""


class AdapterTab(msgspec.Struct, frozen=True, kw_only=True):
    """One adapter that can be shown."""

    adapter: str | None
    step: int | None
    """Its newest step."""
    moved: str | None
    """The signal that moved first."""


class Grading(NamedTuple):
    """The findings of one adapter and the ranking of all, as of one moment."""

    number: int
    """Another one where something in it is another; no two adapters' are of one number."""
    adapter: str | None
    series: pl.DataFrame
    """The adapter's curves that were graded."""
    step: int | None
    """Their newest step."""
    ranked: tuple[Ranked, ...]
    findings: Mapping[str, Finding]
    """Check to what it found."""
    falls: ToldFalls
    suites: str
    """Which held-out suite the adapter's numbers are of, where there are several."""
    origin: Origin
    replayed_at: datetime | None


class GradingView(View, frozen=True, kw_only=True):
    """That there is a grading."""

    number: int
    step: int | None


class Gradings:
    """Grades, and holds the last grading for each adapter that was asked for. Usable from several threads."""

    def __init__(self, checks: SignalChecks | None = None) -> None:
        self.checks = checks or SignalChecks()
        self._lock = threading.Lock()
        self._falls = Falls()
        self._numbers = itertools.count(1)
        self._last: dict[str | None, Grading] = {}

    def made(self, held: Held, asked: str | None) -> Grading:
        """Of what is held now."""
        with self._lock:
            whole = self.checks.series(held)
            ranked = self.checks.ranked(held)
            falls = self._falls.of(held, ranked)
            adapter = _chosen(asked, adapter_tabs(held, whole.series, ranked, falls))
            findings = self.checks.of_adapter(held, adapter)
            series = whole.series.filter(pl.col("adapter").eq_missing(adapter))
            own = pl.col("adapter").eq_missing(adapter)
            suites = suites_text(stepped(held.evals.filter(own), held.versions.filter(own)))
            step, before = newest_step(series), self._last.get(asked)
            made = Grading(0, adapter, series, step, ranked, findings, falls, suites, held.source, held.replayed_at)
            known = before.number if before is not None and _same(before, made) else None
            made = made._replace(number=known or next(self._numbers))
            self._last[asked] = made
            return made

    def last(self, held: Held, asked: str | None) -> Grading | None:
        """What was made last; None where that was of another time or another window."""
        last = self._last.get(asked)
        if last is None or (last.origin, last.replayed_at) != (held.source, held.replayed_at):
            return None
        return last

    def build(self, held: Held, ask: Ask, log: OpenLog) -> GradingView:
        """Grades what is held."""
        del log
        made = self.made(held, ask.adapter)
        return GradingView(number=made.number, step=made.step)


def topic(gradings: Gradings) -> Topic[Ask]:
    """The topic that grades for the signals beside it."""
    return Topic("grading", gradings.build, most_rest_s=MOST_REST_S)


def adapter_tabs(
    held: Held, series: pl.DataFrame, ranked: Sequence[Ranked], falls: ToldFalls
) -> tuple[AdapterTab, ...]:
    """Those with a series, then those of the registry without one."""
    last: dict[str | None, int] = dict(series.group_by("adapter").agg(pl.col("step").max()).iter_rows())
    registered = [] if held.registry is None else [each.adapter for each in held.registry.adapters]
    moved = dict.fromkeys(falls, HELD_OUT) | {each.adapter: each.moves[0].signal for each in ranked if each.moves}
    names = sorted({*last, *registered}, key=lambda name: (name is None, name or ""))
    return tuple(AdapterTab(adapter=name, step=last.get(name), moved=moved.get(name)) for name in names)


def newest_step(series: pl.DataFrame) -> int | None:
    """The last step of any curve."""
    return None if series.is_empty() else series["step"].max()  # pyright: ignore[reportReturnType]


def _chosen(asked: str | None, adapters: Sequence[AdapterTab]) -> str | None:
    """The adapter asked for, else one that moved, else the one with most steps."""
    if asked is not None or not adapters:
        return asked
    return max(adapters, key=lambda each: (each.moved is not None, each.step or -1)).adapter


def _same(before: Grading, made: Grading) -> bool:
    """By identity, but for curves and falls: what did not change is the very same one."""
    findings = all(before.findings[check] is each for check, each in made.findings.items())
    curves = before.adapter == made.adapter and before.series.equals(made.series)
    held_out = before.falls == made.falls and before.suites == made.suites
    return curves and before.ranked is made.ranked and held_out and findings
