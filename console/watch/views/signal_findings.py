"""The eight signals' findings, series and ranking: what `roundhouse check` says of what is held."""

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import polars as pl

from checks.check import Check
from checks.finding import Finding
from checks.measure import MeasureType, Tools
from checks.measures.entropies import Entropies
from checks.measures.importance_weights import ImportanceWeights
from checks.measures.parts import narrowed
from checks.measures.token_lags import TokenLags
from checks.ranking import Ranked, rank_signals, timed
from checks.signals import signal_series
from checks.suite import CHECKS
from console.watch.held import Held
from console.watch.kept import Kept

CHECK_OF = {
    "max_w": "importance-weight",
    "staleness": "staleness",
    "stall": "stall-time",
    "mfu": "mfu",
    "reward_eval_gap": "reward-eval-gap",
    "pass_at_k": "pass-at-k",
    "entropy": "entropy",
    "grad_norm": "grad-norm",
}
"""Signal to the check that grades it."""
EVIDENCE = 24
"""Faults of a finding that are kept, the gravest: as many as a wide terminal lists."""
Thresholds = Mapping[str, Mapping[str, float]]
"""Check to argument to value, as `roundhouse check` takes them."""
_GRADING = {check.name: check for check in CHECKS if check.name in CHECK_OF.values()}
_OF_ROWS = {check.name: check for check in CHECKS if not check.measures and check.name not in _GRADING}
"""Other checks that read nothing but what is held."""
_MEASURES = (ImportanceWeights, TokenLags, Entropies)
_TABLES = ("turns", "rewards", "steps", "evals", "spans", "versions")
Frames = dict[str, pl.DataFrame]


class SignalSeries(NamedTuple):
    """The curves, and what they are made of."""

    series: pl.DataFrame
    """As `signal_series` gives it."""
    frames: Frames
    """What it was made from, by the names that checks use."""


class _Graded(NamedTuple):
    """A finding, and what it was made of."""

    read: tuple[pl.DataFrame, ...]
    finding: Finding


class SignalChecks:
    """Runs the checks of the eight signals; nothing is run twice over the same frames."""

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self.thresholds = thresholds or {}
        self._making = threading.Lock()
        self._whole: Kept[SignalSeries] = Kept()
        self._last_series: pl.DataFrame | None = None
        self._ranked: Kept[tuple[Ranked, ...]] = Kept()
        self._graded: dict[tuple[str, bool], Kept[Finding]] = {}
        self._narrow: dict[str, _Graded] = {}

    def series(self, held: Held) -> SignalSeries:
        """Of everything held. New turns that nobody trained on change none of it."""
        trained = held.turns.height - held.turns["trainer_step"].null_count()
        rewarded = held.turns.height - held.turns["reward"].null_count()
        tables = (held.steps, held.rewards, held.evals, held.spans, held.versions)
        tokens = (held.tokens.weights, held.tokens.lags, held.tokens.entropies, held.tokens.signals)
        with self._making:
            return self._whole.of((*tables, *tokens, trained, rewarded), lambda: self._all(held))

    def ranked(self, held: Held) -> tuple[Ranked, ...]:
        """The adapters, each with its signals ranked and timed."""
        series = self.series(held).series
        return self._ranked.of((series, held.steps), lambda: self._rank(series, held.steps))

    def of_adapter(self, held: Held, adapter: str | None) -> Mapping[str, Finding]:
        """Check to what it found over one adapter; over everything where there is one only."""
        whole = self.series(held)
        narrow = whole.series["adapter"].n_unique() > 1
        return {name: self._found(name, whole.frames, adapter, narrow=narrow) for name in _GRADING}

    def over_all(self, held: Held) -> Mapping[str, Finding]:
        """Check to what it found over everything held, as the report has it."""
        whole = self.series(held)
        return {name: self._found(name, whole.frames, None, narrow=False) for name in _GRADING}

    def of_check(self, held: Held, check: str) -> Finding | None:
        """What one check found over everything held; None where it takes tokens that no signal is made of."""
        if check in _GRADING:
            return self._found(check, self.series(held).frames, None, narrow=False)
        if (of_rows := _OF_ROWS.get(check)) is None:
            return None
        given = [getattr(held, name) for name in of_rows.frames]
        return self._graded.setdefault((check, False), Kept()).of((*given,), lambda: self._run(of_rows, given))

    def _all(self, held: Held) -> SignalSeries:
        frames: Frames = {name: getattr(held, name) for name in _TABLES}
        told = (held.tokens.weights, held.tokens.lags, held.tokens.entropies)
        for kind, frame in zip(_MEASURES, told, strict=True):
            frames[kind.name] = frame if frame.width else _unread(kind)
        series = self._same(signal_series(*(frames[name] for name in _TABLES), tokens=held.tokens.signals))
        return SignalSeries(series, frames)

    def _same(self, series: pl.DataFrame) -> pl.DataFrame:
        """The series made before, where the new one says the same: what hangs on it is then still right."""
        before = self._last_series
        if before is None or not before.equals(series):
            self._last_series = before = series
        return before

    def _rank(self, series: pl.DataFrame, steps: pl.DataFrame) -> tuple[Ranked, ...]:
        strict: dict[str, Any] = dict(self.thresholds.get("first-mover", {}))
        return timed(rank_signals(series, **strict), series, steps)

    def _found(self, name: str, frames: Frames, adapter: str | None, *, narrow: bool) -> Finding:
        """A check's finding, made again where one of its own frames is another."""
        check = _GRADING[name]
        given = [frames[each] for each in check.frames]
        kept = self._graded.setdefault((name, narrow), Kept())
        return kept.of(
            (adapter if narrow else None, *given),
            lambda: self._narrowed(check, given, adapter) if narrow else self._run(check, given),
        )

    def _narrowed(self, check: Check, given: Sequence[pl.DataFrame], adapter: str | None) -> Finding:
        """The finding over the rows of one adapter: the one made before, where only others have new ones."""
        read = tuple(_narrowed(name, frame, adapter, check) for name, frame in zip(check.frames, given, strict=True))
        if "turns" in check.frames:
            return self._run(check, read)
        before = self._narrow.get(check.name)
        if before is None or not all(one.equals(other) for one, other in zip(before.read, read, strict=True)):
            before = self._narrow[check.name] = _Graded(read, self._run(check, read))
        return before.finding

    def _run(self, check: Check, read: Sequence[pl.DataFrame]) -> Finding:
        finding = check.run(read, self.thresholds.get(check.name, {}), evidence_limit=EVIDENCE)
        # A report has tables beside: a console does not hold what it never shows.
        return msgspec.structs.replace(finding, breakdown=())


@cache
def _unread(kind: MeasureType) -> pl.DataFrame:
    """What a measure gives that has seen no turn."""
    return kind(Tools()).frame()


@cache
def _shared(thresholds: bytes) -> SignalChecks:
    return SignalChecks(msgspec.json.decode(thresholds, type=dict[str, dict[str, float]]))


def shared_checks(thresholds: Thresholds | None = None) -> SignalChecks:
    """The same for every topic that has these thresholds: what one has found the other need not find again."""
    return _shared(msgspec.json.encode(thresholds or {}, order="sorted"))


def _narrowed(name: str, frame: pl.DataFrame, adapter: str | None, check: Check) -> pl.DataFrame:
    """The rows of one adapter; of a measure, in each part that names adapters; of turns, the columns that are read.

    What an engine does is of every adapter that it serves: its spans name none.
    """
    if name == "spans":
        return frame.filter(pl.col("adapter").eq_missing(adapter) | pl.col("adapter").is_null())
    if name == "turns":
        frame = frame.select(*dict.fromkeys(("session_id", "turn", "adapter", *check.turn_columns)))
    if name in _TABLES:
        return frame.filter(pl.col("adapter").eq_missing(adapter)) if "adapter" in frame.columns else frame
    return narrowed(frame, "adapter", lambda rows: rows.filter(pl.col("adapter").cast(pl.String).eq_missing(adapter)))
