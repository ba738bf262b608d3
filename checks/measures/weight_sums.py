"""Sums over log w of runs of tokens, and its histogram."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from checks.measures.scored_tokens import ScoredTokens
from checks.ragged import Array

SUMS = ("n", "sum_d", "sum_abs", "sum_sq", "sum_w", "sum_w2", "sum_k3", "confident", "padded", "min_d", "max_d")
"""What `piece_sums` gives of d = log w: count, sums of d, |d|, d^2, w, w^2 and w - 1 - d, confident
disagreements (mu >= 0.5 and log w < -2), those of them whose mu is exactly 1, least and greatest d."""
HISTOGRAM_BINS = 42
"""Bins of 0.05 from -1.05 to 1.05; the first and the last hold what lies beyond too."""
BIN_WIDTH = 0.05
_HISTOGRAM_TOKENS = 32_768
_BLOCK = 32_768
_HALF = np.log(0.5)


def piece_sums(tokens: ScoredTokens, start: Array) -> dict[str, Array]:
    """The sums of each piece; `start` is where each begins, none is empty. A block at a time, to stay in the cache."""
    total = len(tokens.mu)
    ends = np.append(start[1:], total)
    sums: dict[str, Array] = {name: np.zeros(len(start)) for name in SUMS}
    sums["n"] = ends - start
    for name in ("confident", "padded"):
        sums[name] = np.zeros(len(start), dtype=np.int64)
    first = 0
    while first < len(start):
        last = max(first + 1, int(np.searchsorted(ends, start[first] + _BLOCK, side="right")))
        block = slice(int(start[first]), int(ends[last - 1]))
        _block_sums(sums, slice(first, last), tokens.log_w(block), tokens.mu[block], start[first:last] - block.start)
        first = last
    return sums


def _block_sums(sums: dict[str, Array], at: slice, d: Array, mu: Array, begin: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        sums["sum_d"][at] = np.add.reduceat(d, begin)
        sums["min_d"][at] = np.minimum.reduceat(d, begin)
        sums["max_d"][at] = np.maximum.reduceat(d, begin)
        room = np.abs(d)
        sums["sum_abs"][at] = np.add.reduceat(room, begin)
        np.multiply(d, d, out=room)
        sums["sum_sq"][at] = np.add.reduceat(room, begin)
        if sums["min_d"][at].min() < -2.0:
            sums["confident"][at] = np.add.reduceat((d < -2.0) & (mu >= _HALF), begin, dtype=np.int64)
            sums["padded"][at] = np.add.reduceat((d < -2.0) & (mu == 0.0), begin, dtype=np.int64)
        # expm1, because w - 1 - log w of a w near 1 is lost in rounding otherwise
        np.expm1(d, out=room)
        np.subtract(room, d, out=d)
        sums["sum_k3"][at] = np.add.reduceat(d, begin)
        room += 1.0
        sums["sum_w"][at] = np.add.reduceat(room, begin)
        np.multiply(room, room, out=room)
        sums["sum_w2"][at] = np.add.reduceat(room, begin)


def worst_tokens(tokens: ScoredTokens, begin: Array, end: Array) -> Array:
    """Of each run of tokens, none empty, the one whose |log w| is largest: of equals the least w, then the first."""
    worst = np.empty(len(begin), dtype=np.int64)
    ends: Array = np.cumsum(end - begin)
    first = 0
    while first < len(begin):
        done = int(ends[first]) - int(end[first] - begin[first])
        last = max(first + 1, int(np.searchsorted(ends, done + _BLOCK, side="right")))
        worst[first:last] = _worst_of_block(tokens, begin[first:last], end[first:last])
        first = last
    return worst


def _worst_of_block(tokens: ScoredTokens, begin: Array, end: Array) -> Array:
    lengths = end - begin
    starts = np.cumsum(lengths) - lengths
    token = np.arange(int(lengths.sum())) + np.repeat(begin - starts, lengths)
    d = tokens.log_w(token)
    low, high = np.minimum.reduceat(d, starts), np.maximum.reduceat(d, starts)
    found = np.flatnonzero(d == np.repeat(np.where(-low >= high, low, high), lengths))
    return token[found[np.searchsorted(found, starts)]]


def histogram(tokens: ScoredTokens, start: Array, segments: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Tokens per cell and bin, of every token in a small log and of evenly spaced ones in a large one."""
    total = len(tokens.mu)
    token = np.arange(0, total, max(1, total // _HISTOGRAM_TOKENS))
    with np.errstate(over="ignore"):
        at = np.floor(tokens.log_w(token) / BIN_WIDTH + HISTOGRAM_BINS / 2)
    bins = np.clip(at, 0, HISTOGRAM_BINS - 1).astype(np.int64)
    cells = segments.select(keys).unique(maintain_order=True).with_row_index("cell")
    numbered = segments.select(keys).join(cells, on=keys, how="left", nulls_equal=True, maintain_order="left")
    cell = numbered["cell"].to_numpy().astype(np.int64)[np.searchsorted(start, token, side="right") - 1]
    count = np.bincount(cell * HISTOGRAM_BINS + bins, minlength=cells.height * HISTOGRAM_BINS)
    held = np.flatnonzero(count)
    of_cell = cells.drop("cell")[held // HISTOGRAM_BINS]
    return of_cell.with_columns(pl.Series("bin", held % HISTOGRAM_BINS), pl.Series("n", count[held]))
