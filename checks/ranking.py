"""The signals of each adapter ranked by when they left their bands."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from checks.bounded import LARGEST
from checks.onset import Onset, least_samples, onset, strictness
from checks.signals import SIGNALS, Part, Signal, named

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]


class Series(NamedTuple):
    """One part of one signal of one adapter."""

    adapter: str | None
    signal: Signal
    part: Part
    steps: Array
    values: Array


class Move(NamedTuple):
    """One signal that left its band."""

    signal: str
    part: str
    first: int
    """Earliest step at which it can have begun."""
    last: int
    """Latest step at which it can have begun: the first step seen to be bad where sampling is sparse."""
    seen: int
    """The step at which the test was sure."""
    score: float
    was: float
    """The signal's median before."""
    at: datetime | None = None
    """When the step `last` ended, where the log says that."""


class Ranked(NamedTuple):
    """One adapter: what moved, in order, and what did not."""

    adapter: str | None
    moves: tuple[Move, ...]
    steady: tuple[str, ...]
    unknown: tuple[str, ...]
    """Signals without data, or with too little for a baseline."""

    def rank(self, move: Move) -> int:
        """1 and up: one more than the number of signals that surely moved earlier."""
        return 1 + sum(other.last < move.first for other in self.moves)

    def tie(self, move: Move) -> bool:
        """Whether another signal may have moved at the same time."""
        return any(other is not move and other.first <= move.last and move.first <= other.last for other in self.moves)


def rank_signals(series: pl.DataFrame, *, strict: float = 1.0) -> tuple[Ranked, ...]:
    """The adapters of a frame of `signal_series`, each with its signals ranked."""
    read = list(_read(series))
    factor = strict * strictness(sum(len(each.values) for each in read))
    adapters = dict.fromkeys(each.adapter for each in read)
    return tuple(_rank(adapter, [each for each in read if each.adapter == adapter], factor) for adapter in adapters)


def _read(series: pl.DataFrame) -> Iterable[Series]:
    """The series of every signal, its numbers in the order of steps."""
    parts = {(signal.name, part.name): (signal, part) for signal in SIGNALS for part in signal.parts}
    order = list(parts)
    grouped = series.partition_by("adapter", "signal", "part", as_dict=True, maintain_order=True)
    for key in sorted(grouped, key=lambda key: (key[0] is not None, key[0] or "", order.index((key[1], key[2])))):
        frame = grouped[key].filter(~pl.col("value").is_nan()).sort("step")
        signal, part = parts[key[1], key[2]]
        frame = frame.filter(pl.col("value") != 0) if part.zero_is_idle else frame
        yield Series(key[0], signal, part, frame["step"].to_numpy(), _bounded(frame["value"].to_numpy(), part))


def _bounded(values: Array, part: Part) -> Array:
    """Values that a logarithm and a mean of squares can take: infinities become ten times the largest finite value.

    What tokens tell is cut too, since it may be larger than any number of a log: w is an exponential.
    """
    finite = values[np.isfinite(values)]
    largest = min(float(np.abs(finite).max()), LARGEST) if len(finite) else 1.0
    values = np.clip(values, -10 * largest, 10 * largest)
    if not part.log:
        return values
    positive = values[values > 0]
    # Zeros of a quantity that varies by factors stand a factor of ten below its usual size.
    least = 0.1 * float(np.median(positive)) if len(positive) else 1.0
    return np.log(np.maximum(values, max(least, float(np.finfo(np.float64).tiny))))


def _rank(adapter: str | None, read: list[Series], factor: float) -> Ranked:
    moves: list[Move] = []
    steady: list[str] = []
    unknown: list[str] = []
    for signal in SIGNALS:
        least = least_samples(evaluation=signal.evaluation)
        known = [each for each in read if each.signal is signal and len(each.values) >= least]
        found = [move for each in known for move in _moves(each, factor)]
        if found:
            moves.append(min(found, key=lambda move: (move.seen, -move.score)))
        else:
            (steady if known else unknown).append(signal.name)
    return Ranked(adapter, tuple(sorted(moves, key=lambda m: (m.last, m.first))), tuple(steady), tuple(unknown))


def _moves(series: Series, factor: float) -> Iterable[Move]:
    """The onset in each direction that is bad."""
    for sign in {"up": (1,), "down": (-1,), "either": (-1, 1)}[series.part.worse]:
        found = onset(sign * series.values, evaluation=series.signal.evaluation, factor=factor, floor=_floor(series))
        if found is not None:
            yield _move(series, found, sign)


def _floor(series: Series) -> float:
    """Least variation that is believed: half a percent of the usual size, or what the part says."""
    usual = 0.005 if series.part.log else 0.005 * float(np.median(np.abs(series.values)))
    return max(usual, series.part.floor)


def _move(series: Series, found: Onset, sign: int) -> Move:
    steps = series.steps
    first = int(steps[found.first - 1]) + 1 if found.first else int(steps[0])
    base = sign * found.base
    return Move(
        signal=series.signal.name,
        part=series.part.name,
        first=first,
        last=int(steps[found.last]),
        seen=int(steps[found.seen]),
        score=found.score,
        was=float(np.exp(base)) if series.part.log else base,
    )


def timed(ranked: Iterable[Ranked], series: pl.DataFrame, steps: pl.DataFrame) -> tuple[Ranked, ...]:
    """The same with the time of each move, from `steps.at`; `series` is what was ranked."""
    steps, _ = named((steps, series))
    known = steps.drop_nulls("at").unique(["adapter", "step"], keep="last")
    at = {(adapter, step): time for adapter, step, time in known.select("adapter", "step", "at").iter_rows()}
    return tuple(
        each._replace(moves=tuple(move._replace(at=at.get((each.adapter, move.last))) for move in each.moves))
        for each in ranked
    )
