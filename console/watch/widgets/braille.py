"""Curves as text: the least and the greatest value of each half cell, as braille, blocks or ASCII. Pure."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from console.watch.widgets.palette import Curve

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]
Form = Curve

_WEIGHTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot of a braille cell, by row and column."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_LEVELS = " .:|"
HOLD = 2.0
"""A sample stands until the next one, if that is no more than so many usual distances away."""


class Scale(NamedTuple):
    """The values at the lower and the upper edge."""

    low: float
    high: float


class Columns(NamedTuple):
    """Least and greatest value of each column; NaN where there is none."""

    low: Array
    high: Array


def columns_of(
    steps: Sequence[float] | Array, values: Sequence[float | None] | Array, axis: Scale, count: int
) -> Columns:
    """The samples of an axis in `count` columns of equal width, both ends of the axis included.

    NaN and None are gaps. Where columns are narrower than the distance between samples a sample is held until the next
    one, but not over a gap.
    """
    nothing = Columns(np.full(count, np.nan), np.full(count, np.nan))
    x = np.asarray(steps, dtype=np.float64)
    y = np.asarray(
        [math.nan if each is None else each for each in values] if not isinstance(values, np.ndarray) else values
    )
    y = y.astype(np.float64)
    inside = (x >= axis.low) & (x <= axis.high)
    x, y = x[inside], y[inside]
    if count < 1 or not len(x):
        return nothing
    at = column_at(x, axis, count)
    low, high = nothing
    known = ~np.isnan(y)
    columns, values_known = at[known], y[known]
    if len(columns):
        starts = np.flatnonzero(np.diff(columns, prepend=-1))
        low[columns[starts]] = np.minimum.reduceat(values_known, starts)
        high[columns[starts]] = np.maximum.reduceat(values_known, starts)
        _hold(x, y, at, Columns(low, high))
    return Columns(low, high)


def column_at(x: Array, axis: Scale, count: int) -> Array:
    """The column of each place on the axis."""
    span = axis.high - axis.low
    if span <= 0:
        return np.full(len(x), count - 1, dtype=np.int64)
    return np.clip(((x - axis.low) / span * count).astype(np.int64), 0, count - 1)


def _hold(x: Array, y: Array, at: Array, columns: Columns) -> None:
    """Fills the empty columns between one sample and the next with the earlier one."""
    if len(x) < 2:
        return
    distances = np.diff(x)
    usual = float(np.median(distances))
    joined = (distances <= HOLD * usual) & (np.diff(at) > 1) & ~np.isnan(y[:-1]) & ~np.isnan(y[1:])
    for index in np.flatnonzero(joined):
        empty = slice(int(at[index]) + 1, int(at[index + 1]))
        columns.low[empty] = columns.high[empty] = y[index]


def scale_of(values: Sequence[float | None] | Array, baseline: Scale | None = None) -> Scale:
    """The range of the finite values joined with a baseline's; a flat one is widened."""
    array = np.asarray([math.nan if each is None else each for each in values], dtype=np.float64)
    finite = array[np.isfinite(array)]
    edges = [float(finite.min()), float(finite.max())] if len(finite) else []
    if baseline is not None:
        edges += [baseline.low, baseline.high]
    if not edges:
        return Scale(0.0, 1.0)
    low, high = min(edges), max(edges)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        half = max(abs(high) * 0.05, 1e-9)
        return Scale(low - half, high + half)
    return Scale(low, high)


def raster(columns: Columns, scale: Scale, rows: int, form: Curve = "braille") -> list[str]:
    """Rows of text from the top; two columns a cell in braille, one otherwise. Infinite values stand at the edge."""
    if form == "braille":
        return _braille(columns, scale, rows)
    return _bars(columns, scale, rows, form)


def _levels(values: Array, scale: Scale, count: int) -> Array:
    """Level 0 (the lowest) to count - 1 of each value."""
    span = scale.high - scale.low
    with np.errstate(invalid="ignore"):
        share = np.clip((values - scale.low) / span, 0.0, 1.0)
    return np.rint(np.nan_to_num(share) * (count - 1)).astype(np.int64)


def _braille(columns: Columns, scale: Scale, rows: int) -> list[str]:
    known = ~np.isnan(columns.low)
    width = (len(known) + 1) // 2
    height = 4 * rows
    top = height - 1 - _levels(columns.high, scale, height)
    bottom = height - 1 - _levels(columns.low, scale, height)
    line = np.arange(height)[:, None]
    dots = np.zeros((height, 2 * width), dtype=bool)
    dots[:, : len(known)] = known & (line >= top) & (line <= bottom)
    cells = (dots.reshape(rows, 4, width, 2) * _WEIGHTS[None, :, None, :]).sum(axis=(1, 3))
    return ["".join(chr(0x2800 + code) if code else " " for code in row) for row in cells.tolist()]


def _bars(columns: Columns, scale: Scale, rows: int, form: Curve) -> list[str]:
    """Each column from its least to its greatest level; the part of a cell that is reached tells the level."""
    steps = (len(_BLOCKS) if form == "blocks" else len(_LEVELS)) - 1
    letters = _BLOCKS if form == "blocks" else _LEVELS
    known = ~np.isnan(columns.low)
    high = _levels(columns.high, scale, steps * rows) + 1
    # Blocks grow from the bottom of the lane; ASCII shows the range alone, so that a line stays a line.
    low = (
        _levels(columns.low, scale, steps * rows) // steps if form == "ascii" else np.zeros(len(known), dtype=np.int64)
    )
    lines: list[str] = []
    for row in range(rows - 1, -1, -1):
        reached = np.where(known & (row >= low), np.clip(high - row * steps, 0, steps), 0)
        lines.append("".join(letters[each] for each in reached.tolist()))
    return lines
