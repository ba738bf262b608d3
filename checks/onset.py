"""Where a noisy, autocorrelated series first leaves its own band for the worse: a robust change test with its onset.

The test compares neighbouring stretches of the series: for a scale of m and b samples and every index i,
D(i) = mean of samples [i, i + m) less mean of samples [i - b, i). In a healthy series D wanders about the local slope,
as far as the series' own autocorrelation makes it. So D is judged by its own past: z = (D - median) / (1.4826 MAD) of
the values of D that end before i, up to `WINDOW` of them. Slow trends move the median, autocorrelation widens the MAD,
and neither needs a model. Isolated outliers are taken out first by a running median of five, which keeps edges.
A series that has one and the same value much of the time (waits of 0, a synchronous run's staleness) has a MAD of next
to nothing: it is judged by the root mean square of those values of D too, and a rise of it has to last.

The limits in `DENSE` and `SPARSE` are from our own simulation (AR(1) noise with phi up to 0.95, innovations Gaussian
and Student t with 3.5 to 8 degrees of freedom, warm-up trends): with them 1.6 % of 500 healthy runs of 1,000 steps and
ten series had any alarm, in 96 % of 300 incidents everything that moved was found, in order, and nothing else.
`tests/checks/faults/test_first_mover_rates.py` repeats it, on seeds that the limits were not chosen on.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from checks.rise_fit import fit_rise

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]

WINDOW = 240
"""Most values of D that a reference holds."""
SHORT = 150
"""Evaluations with fewer points are tested point by point: neighbours are far apart and nearly independent."""


class Scale(NamedTuple):
    """One pair of stretches that is compared."""

    samples: int
    """m, the length of the later stretch."""
    before: int
    """b, the length of the earlier one."""
    base: float
    """z that alarms when the reference is large."""
    least: int
    """Values of D that a reference must have."""
    half: int
    """The threshold is `base` (1 + (half / size of the reference)^2): few values tell the MAD badly."""


class Plan(NamedTuple):
    """How series of some length are tested."""

    width: int
    """Of the running median."""
    scales: tuple[Scale, ...]
    lasting: int
    """Samples after the later stretch over which a rise must last."""


DENSE = Plan(
    5, (Scale(3, 3, 9.4, 40, 24), Scale(6, 6, 7.0, 40, 32), Scale(12, 36, 6.6, 60, 65), Scale(24, 72, 7.2, 120, 90)), 20
)
SPARSE = Plan(1, (Scale(2, 4, 5.8, 7, 11), Scale(4, 8, 5.8, 8, 20)), 4)
UNDOUBTED = 3.5
"""Multiple of its threshold at which a rise need not last: a burst."""
TIED = 0.1
"""Share of samples of one and the same value from which a series stands still much of the time."""
CALIBRATED_FOR = 10_000
"""Samples tested in one log, all series together, for which the bases hold."""


class Onset(NamedTuple):
    """A series left its band; indices count its finite values."""

    first: int
    """Earliest index that can be the first bad one; differs from `best` and `last` in sparse series only."""
    last: int
    """Latest index that can be the first bad one."""
    best: int
    """The first bad one, by the best fit."""
    seen: int
    """The index at which the test was sure."""
    score: float
    """z at the alarm."""
    base: float
    """Median before the onset, in the series' unit or its logarithm."""
    spread: float
    """1.4826 MAD before the onset."""


def strictness(samples: int) -> float:
    """Factor on every threshold when a log has more samples to test than the bases were calibrated for."""
    return 1 + 0.12 * max(0.0, math.log(max(samples, 1) / CALIBRATED_FOR))


def least_samples(*, evaluation: bool) -> int:
    """Samples below which a series cannot be tested: a baseline, and something to compare with it."""
    scales = (SPARSE if evaluation else DENSE).scales
    return min(scale.least + 2 * scale.samples + scale.before for scale in scales) - 1


def onset(values: Array, *, evaluation: bool = False, factor: float = 1.0, floor: float = 0.0) -> Onset | None:
    """The first lasting rise of a series of finite values, or None.

    `evaluation` says that each value was measured on samples of its own. `floor` is the smallest standard deviation of
    one sample that is believed, for series that hardly vary.
    """
    plan = SPARSE if evaluation and len(values) < SHORT else DENSE
    smooth = running_median(values, plan.width)
    alarms: list[tuple[int, int, Scale, float, float]] = []
    tied = bool(np.unique(values, return_counts=True)[1].max(initial=0) > TIED * len(values))
    finest: Array | None = None
    for scale in plan.scales:
        rises = _rises(smooth, scale)
        centre, spread, size = _reference(rises, scale, tied=tied)
        finest = spread if finest is None else finest
        # White noise is the least that longer stretches can vary, given the shortest.
        shrink = math.sqrt(plan.scales[0].samples / scale.samples)
        spread = np.fmax(np.fmax(spread, 0.8 * finest * shrink), floor * math.sqrt(2 / scale.samples))
        with np.errstate(divide="ignore", invalid="ignore"):
            score = (rises - centre) / spread
            limit = scale.base * factor * (1 + (scale.half / size) ** 2)
            over = np.flatnonzero(score > limit)
        for index in over:
            burst = not tied and score[index] > limit[index] * UNDOUBTED
            if burst or _lasts(smooth, int(index), scale, plan.lasting, float(centre[index]), tied=tied):
                slope = 2 * float(centre[index]) / (scale.samples + scale.before)
                alarms.append((int(index) + scale.samples, int(index), scale, float(score[index]), slope))
                break
    if not alarms:
        return None
    seen, index, scale, score, slope = min(alarms, key=lambda alarm: alarm[:2])
    fitted = fit_rise(values, smooth, index, scale.samples, slope, sparse=plan is SPARSE)
    before = values[max(0, fitted.best - WINDOW) : fitted.best]
    base = float(np.median(before))
    spread_before = 1.4826 * float(np.median(np.abs(before - base)))
    return Onset(fitted.first, fitted.last, fitted.best, min(seen, len(values)) - 1, score, base, spread_before)


def running_median(values: Array, width: int) -> Array:
    """The median of the `width` values around each one, the ends mirrored."""
    half = width // 2
    if half == 0 or len(values) <= half:
        return values
    padded = np.pad(values, half, mode="reflect")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


def _rises(values: Array, scale: Scale) -> Array:
    """D of each index; NaN where a stretch is not whole."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    rises = np.full(len(values), np.nan)
    at = np.arange(scale.before, len(values) - scale.samples + 1)
    later = (total[at + scale.samples] - total[at]) / scale.samples
    rises[at] = later - (total[at] - total[at - scale.before]) / scale.before
    return rises


def _reference(rises: Array, scale: Scale, *, tied: bool) -> tuple[Array, Array, Array]:
    """Median, robust spread and size of the reference of each index: values of D that end before it."""
    centre = _rolling(rises, scale.least)
    distance = np.abs(rises - centre)
    known = np.flatnonzero(np.isfinite(centre))
    if len(known):
        distance[: known[0]] = np.abs(rises[: known[0]] - centre[known[0]])
    mad = _rolling(distance, scale.least)
    mean = _rolling_mean(np.minimum(distance, 6 * mad), scale.least)
    # Heavy tails widen the mean distance more than the median one; for a Gaussian the two agree.
    spread = np.fmax(1.4826 * mad, 1.2533 * mean)
    if tied:
        # What stands still much of the time varies by how often and how far it does not; no median tells that.
        spread = np.fmax(spread, np.sqrt(np.fmax(_rolling_mean(distance**2, scale.least), 0.0)))
    size = np.minimum(np.cumsum(np.isfinite(rises)), WINDOW).astype(np.float64)
    return tuple(_delayed(each, scale.samples) for each in (centre, spread, size))  # pyright: ignore[reportReturnType]


def _rolling(values: Array, least: int) -> Array:
    return pl.Series(values).fill_nan(None).rolling_median(WINDOW, min_samples=least).to_numpy()


def _rolling_mean(values: Array, least: int) -> Array:
    return pl.Series(values).fill_nan(None).rolling_mean(WINDOW, min_samples=least).to_numpy()


def _delayed(values: Array, by: int) -> Array:
    return np.concatenate([np.full(min(by, len(values)), np.nan), values[: max(0, len(values) - by)]])


def _lasts(values: Array, index: int, scale: Scale, lasting: int, centre: float, *, tied: bool) -> bool:
    """Whether the samples after the later stretch stay above half the rise, as far as there are some.

    Where a series stands still much of the time most of them have to, and a quarter of them must be there.
    """
    start, end = index + scale.samples, min(len(values), index + scale.samples + lasting)
    if end - start < (lasting // 4 if tied else 2):
        return not tied
    before = float(values[index - scale.before : index].mean())
    slope = 2 * centre / (scale.samples + scale.before)
    drift = slope * ((start + end) / 2 - (index - scale.before / 2))
    rise = float(values[index:start].mean()) - before - centre
    after = float(np.median(values[start:end]) if tied else values[start:end].mean())
    return after - before - drift >= 0.5 * rise
