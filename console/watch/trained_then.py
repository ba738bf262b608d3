"""What training had made by a time that is replayed."""

from datetime import datetime
from typing import NamedTuple

import polars as pl

from checks.trained_step import trained_step

NONE_YET = -1
"""Stands for a step before any other."""


class TrainedThen(NamedTuple):
    """Which steps had ended. A score has no time of its own: it is known to have been there once its step had ended."""

    ended: pl.DataFrame
    """`adapter, last, newest`: the last step that had ended by then, and the newest whose end is known at all."""
    versions: pl.DataFrame
    """All that were read, later ones too: how their steps are counted tells of which step a score is."""
    whole: bool
    """Whether everything had been read by then: what no record gives a time was there too."""

    def scored(self, frame: pl.DataFrame) -> pl.Series:
        """Whether what a row says of its `adapter`, `trainer_step` and `trainer_version` was there."""
        return self.had(frame, trained_step(self.versions))

    def had(self, frame: pl.DataFrame, step: pl.Expr) -> pl.Series:
        """Whether what was made of a row's `adapter` in a step was there; where no step is known, it was not.

        A row that names no adapter may be of any: it was there when the step had ended for all of them. Steps that
        name none are those of every adapter without steps of its own.
        """
        rows = frame.select(pl.col("adapter").cast(pl.String), made_in=step.cast(pl.Int64))
        rows = rows.join(self.ended, on="adapter", how="left", nulls_equal=True, maintain_order="left")
        nameless = self.ended.filter(pl.col("adapter").is_null())
        of_any = pl.col("adapter").is_null()
        last, newest = (
            pl.coalesce(name, pl.when(of_any).then(pl.lit(of_all, pl.Int64)).otherwise(pl.lit(unnamed, pl.Int64)))
            for name, of_all, unnamed in (
                ("last", self.ended["last"].min(), nameless["last"].max()),
                ("newest", self.ended["newest"].max(), nameless["newest"].max()),
            )
        )
        ended = (pl.col("made_in") <= last).fill_null(False)
        ends_later = (pl.col("made_in") <= newest).fill_null(False) & ~ended
        return rows.select(ended | (pl.lit(self.whole) & ~ends_later)).to_series()


def trained_then(steps: pl.DataFrame, versions: pl.DataFrame, *, at: datetime, read_at: datetime) -> TrainedThen:
    """As it stood at a time, of everything that was read."""
    timed = pl.col("step").filter(pl.col("at").is_not_null()).max()
    ended = steps.group_by(pl.col("adapter").cast(pl.String)).agg(
        last=pl.col("step").filter(pl.col("at") <= at).max().fill_null(NONE_YET).cast(pl.Int64),
        newest=timed.fill_null(NONE_YET).cast(pl.Int64),
    )
    return TrainedThen(ended, versions, at >= read_at)
