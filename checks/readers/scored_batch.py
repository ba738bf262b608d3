"""Batches with their scores: those of some sessions, and scores from two places as one."""

from collections.abc import Collection

import polars as pl

from checks.log import Batch


def of_sessions(batch: Batch, sessions: Collection[str]) -> Batch:
    """The turns of some sessions, and the scores that are theirs."""
    turns, scores = batch
    mask = turns["session_id"].is_in(pl.Series([list(sessions)], dtype=pl.List(pl.String)))
    if mask.all():
        return batch
    if not mask.any():
        return Batch(turns.head(0), scores.head(0))
    moved = (mask.cast(pl.UInt32).cum_sum() - 1).cast(pl.UInt32)
    kept = scores.filter(mask.gather(scores["row"]))
    return Batch(turns.filter(mask), kept.with_columns(row=moved.gather(kept["row"])))


def joined_scores(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Two frames of scores of the same turns as one, in the order of the turns."""
    if not second.height:
        return first
    if not first.height:
        return second
    return pl.concat([first, second], how="vertical_relaxed").sort("row", maintain_order=True)
