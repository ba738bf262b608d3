"""The completion tokens of a batch of turns as one flat row of tokens: which count, and which version sampled them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from checks.lag import label_version
from checks.ragged import Array, ragged

LENGTH_COLUMNS = ("prompt_ids", "completion_ids", "sampled_logprobs", "loss_mask", "stated_completion_tokens")
"""Columns of `turns` that `lengths` reads."""
VERSION_COLUMNS = ("adapter_version", "weight_versions")
"""Columns of `turns` that `pieces` reads."""
UNKNOWN = np.iinfo(np.int64).min
"""Stands for no version in an int64 array."""
_MOST_TOKENS = np.iinfo(np.int32).max
"""A larger number, or one below zero, counts no completion."""


def lengths(turns: pl.DataFrame) -> pl.DataFrame:
    """Per turn the length of its lists; null where it has none. `tokens` is that of the completion: its ids, else
    its log-probabilities, else what the source counts, else the end of the last span where that is there."""
    said = [pl.col("stated_completion_tokens")]
    if "weight_versions" in turns.columns:
        said.append(pl.col("weight_versions").list.eval(pl.element().struct.field("end")).list.max())
    held = [pl.col(name).list.len().cast(pl.Int64) for name in ("completion_ids", "sampled_logprobs")]
    counts = [pl.when(number.is_between(0, _MOST_TOKENS)).then(number) for number in said]
    return turns.select(
        prompt=pl.col("prompt_ids").list.len().cast(pl.Int64),
        sampled=pl.col("sampled_logprobs").list.len().cast(pl.Int64),
        mask=pl.col("loss_mask").list.len().cast(pl.Int64),
        tokens=pl.coalesce(*held, *counts),
    )


def aligned(turns: pl.DataFrame, row: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The turns at some rows, without their ids, and their `lengths`. Copies nothing when that is every turn once."""
    found, plain = lengths(turns), turns.drop("prompt_ids", "completion_ids")
    rows = row.to_numpy()
    if len(rows) == turns.height and (rows == np.arange(len(rows))).all():
        return plain, found
    return plain[rows], found[rows]


def mask_fits() -> pl.Expr:
    """On a frame of `lengths`: whether the stated mask is as long as the completion, or as prompt + completion."""
    tokens = pl.col("tokens")
    fits = (pl.col("mask") == tokens) | (pl.col("mask") == pl.col("prompt") + tokens)
    return pl.col("mask").is_null() | fits.fill_null(False)


def counted_tokens(mask: pl.Series, offsets: Array) -> Array | None:
    """bool per completion token, False where the stated mask is 0; None where every token counts.

    `offsets` says where each turn's completion begins in the flat row. A mask over prompt + completion is read from
    its end. Masks that do not fit must have been left out before.
    """
    if mask.null_count() == len(mask):
        return None
    stated = ragged(mask)
    tokens = np.diff(offsets)
    if stated.valid.all() and (stated.lengths == tokens).all():
        counted = stated.values != 0
    else:
        counted = np.ones(int(offsets[-1]), dtype=bool)
        rows = np.flatnonzero(stated.valid)
        taken = tokens[rows]
        within = np.arange(int(taken.sum())) - np.repeat(np.cumsum(taken) - taken, taken)
        source = np.repeat(stated.offsets[rows + 1] - taken, taken) + within
        counted[np.repeat(offsets[rows], taken) + within] = stated.values[source] != 0
    return None if counted.all() else counted


def trained_as(turns: pl.DataFrame, adapter: pl.Series) -> pl.DataFrame:
    """The turns, each with the adapter that is trained on it. One that no adapter served is of that adapter's version
    0, the base model; `adapter` is null where the score does not name one."""
    if adapter.null_count() == len(adapter):
        return turns
    of_base = turns["adapter"].is_null() & turns["adapter_version"].is_null() & adapter.is_not_null()
    return turns.with_columns(
        adapter=pl.coalesce(adapter, "adapter"),
        adapter_version=pl.when(of_base).then(0).otherwise("adapter_version").cast(pl.Int64),
    )


class Pieces(NamedTuple):
    """Runs of completion tokens of one turn, one sampling version and one range of positions, in order."""

    start: Array
    """int64, first token in the flat row; a piece ends where the next begins."""
    row: Array
    """int64, the turn."""
    position: Array
    """int64, the first token's index in its completion."""
    version: Array
    """int64, the version that sampled it, or `UNKNOWN`."""


def pieces(turns: pl.DataFrame, offsets: Array, edges: Sequence[int] = ()) -> Pieces:
    """The pieces of the completions at `offsets`, cut at version changes and at positions `edges` too.

    An adapter's version is that of dispatch; without one the spans say it, and a token in no span has none.
    """
    begins, tokens = offsets[:-1], np.diff(offsets)
    span_row, span_version, span_start, span_end = _spans(turns)
    span_start = begins[span_row] + np.clip(span_start, 0, tokens[span_row])
    span_end = begins[span_row] + np.clip(span_end, 0, tokens[span_row])
    cuts = [begins[tokens > edge] + edge for edge in (0, *edges)]
    for cut in (span_start, span_end):
        cuts.append(cut[cut < offsets[span_row + 1]])
    start = np.unique(np.concatenate(cuts))
    row = np.searchsorted(begins, start, side="right") - 1
    version = turns["adapter_version"].fill_null(UNKNOWN).to_numpy()[row]
    if len(span_row):
        span = np.maximum(np.searchsorted(span_start, start, side="right") - 1, 0)
        inside = (span_row[span] == row) & (start < span_end[span]) & (start >= span_start[span])
        version = np.where(inside, span_version[span], version)
    return Pieces(start, row, start - begins[row], version)


def _spans(turns: pl.DataFrame) -> tuple[Array, Array, Array, Array]:
    """Row, version, start and end of every span with a number for a version, of turns that no adapter served."""
    spans = (
        turns.select(pl.int_range(pl.len()).alias("row"), "adapter_version", "weight_versions")
        .filter(pl.col("adapter_version").is_null() & (pl.col("weight_versions").list.len() > 0))
        .explode("weight_versions")
        .unnest("weight_versions")
        .with_columns(label_version(pl.col("version")).alias("version"))
        .filter(pl.col("version").is_not_null() & (pl.col("end") > pl.col("start")) & (pl.col("start") >= 0))
        .sort("row", "start", maintain_order=True)
    )
    return tuple(spans[name].to_numpy().astype(np.int64) for name in ("row", "version", "start", "end"))  # pyright: ignore[reportReturnType]
