"""Sums over log w of runs of tokens, and its histogram."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from checks.ragged import Array

SUMS = ("n", "sum_d", "sum_abs", "sum_sq", "sum_w", "sum_w2", "sum_k3", "confident", "min_d", "max_d")
"""What `piece_sums` gives of d = log w: count, sums of d, |d|, d^2, w, w^2 and w - 1 - d, confident
disagreements (mu >= 0.5 and log w < -2), least and greatest d."""
HISTOGRAM_BINS = 42
"""Bins of 0.05 from -1.05 to 1.05; the first and the last hold what lies beyond too."""
BIN_WIDTH = 0.05
_HISTOGRAM_TOKENS = 65_536
_BLOCK = 32_768
_HALF = np.log(0.5)


def piece_sums(log_w: Array, mu: Array, start: Array) -> dict[str, Array]:
    """The sums of each piece; `start` is where each begins, none is empty. A block at a time, to stay in the cache."""
    sums: dict[str, Array] = {name: np.zeros(len(start)) for name in SUMS}
    sums["n"] = np.diff(start, append=len(log_w))
    sums["confident"] = np.zeros(len(start), dtype=np.int64)
    ends = np.append(start[1:], len(log_w))
    first = 0
    while first < len(start):
        last = max(first + 1, int(np.searchsorted(ends, start[first] + _BLOCK, side="right")))
        low, high = int(start[first]), int(ends[last - 1])
        _block_sums(sums, slice(first, last), log_w[low:high], mu[low:high], start[first:last] - low)
        first = last
    return sums


def _block_sums(sums: dict[str, Array], at: slice, d: Array, mu: Array, begin: Array) -> None:
    sums["sum_d"][at] = np.add.reduceat(d, begin)
    sums["min_d"][at] = np.minimum.reduceat(d, begin)
    sums["max_d"][at] = np.maximum.reduceat(d, begin)
    room = np.abs(d)
    sums["sum_abs"][at] = np.add.reduceat(room, begin)
    np.multiply(d, d, out=room)
    sums["sum_sq"][at] = np.add.reduceat(room, begin)
    with np.errstate(over="ignore"):
        # expm1, because w - 1 - log w of a w near 1 is lost in rounding otherwise
        np.expm1(d, out=room)
        sums["sum_k3"][at] = np.add.reduceat(room - d, begin)
        room += 1.0
        sums["sum_w"][at] = np.add.reduceat(room, begin)
        np.multiply(room, room, out=room)
        sums["sum_w2"][at] = np.add.reduceat(room, begin)
    if sums["min_d"][at].min() < -2.0:
        sums["confident"][at] = np.add.reduceat((d < -2.0) & (mu >= _HALF), begin, dtype=np.int64)


def histogram(log_w: Array, start: Array, segments: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Tokens per cell and bin, of every token in a small log and of evenly spaced ones in a large one."""
    token = np.arange(0, len(log_w), max(1, len(log_w) // _HISTOGRAM_TOKENS))
    bins = np.clip(np.floor(log_w[token] / BIN_WIDTH + HISTOGRAM_BINS / 2), 0, HISTOGRAM_BINS - 1).astype(np.int64)
    cells = segments.select(keys).with_columns(pl.struct(keys).rank("dense").alias("cell"))
    segment = np.searchsorted(start, token, side="right") - 1
    cell = cells["cell"].to_numpy()[segment].astype(np.int64)
    held, count = np.unique(cell * HISTOGRAM_BINS + bins, return_counts=True)
    found = pl.DataFrame({"cell": held // HISTOGRAM_BINS, "bin": held % HISTOGRAM_BINS, "n": count})
    named = cells.unique("cell", keep="first").with_columns(pl.col("cell").cast(pl.Int64))
    return found.join(named, on="cell").select(*keys, "bin", "n")
