"""What the trainer's scores say of turns, and what records beside them say of evaluations."""

from collections.abc import Mapping
from datetime import datetime

import polars as pl

from console.watch.replayed import TIMES

_MARKS = ("trainer_step", "trainer_version")
NO_MARKS = pl.DataFrame(schema={"turn_id": pl.String, **dict.fromkeys(_MARKS, pl.Int64)})
"""What `first_marks` gives of no score."""
_TIMED = ("steps", "events", "spans", "rewards", "runs")


def first_marks(scores: pl.DataFrame) -> pl.DataFrame:
    """`turn_id` with step and version of its first score that says any."""
    told = scores.filter(pl.any_horizontal(pl.col(_MARKS).is_not_null())).select("turn_id", *_MARKS)
    return told.unique("turn_id", keep="first", maintain_order=True)


def marked(turns: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """The turns with the marks that `first_marks` gives; a turn that has some keeps them."""
    # Only the rows that are named are looked at, and only two columns are made anew: a store has many turns.
    places = turns["turn_id"].is_in(first["turn_id"].implode()).arg_true()
    named = turns[places].select("turn_id", *_MARKS)
    joined = named.join(first, on="turn_id", how="left", maintain_order="left", suffix="_scored")
    unmarked = pl.all_horizontal(pl.col(_MARKS).is_null())
    marks = joined.select(pl.when(unmarked).then(f"{name}_scored").otherwise(name).alias(name) for name in _MARKS)
    return turns.with_columns(turns[name].scatter(places, marks[name]) for name in _MARKS)


def with_written_at(frames: Mapping[str, pl.DataFrame], read_at: datetime | None) -> pl.DataFrame:
    """The evaluations with a time by which each was written: of its writer's next record that has one.

    `read_at` stands where there is none yet; where it is None, the last record before.
    """
    evals = frames["evals"]
    timed = [
        frames[table].select("writer", "seq", TIMES[table].alias("written_at")) for table in _TIMED if table in frames
    ]
    times = pl.concat(
        [evals.select("writer", "seq", written_at=pl.lit(None, pl.Datetime("us", "UTC"))).clear(), *timed]
    )
    times = times.drop_nulls("written_at").sort("seq")
    numbered = evals.with_row_index("place").sort("seq")
    found = numbered.join_asof(times, on="seq", by="writer", strategy="forward", check_sortedness=False)
    if read_at is not None:
        found = found.with_columns(pl.col("written_at").fill_null(pl.lit(read_at)))
    else:
        before = numbered.join_asof(times, on="seq", by="writer", strategy="backward", check_sortedness=False)
        found = found.with_columns(pl.col("written_at").fill_null(before["written_at"]))
    return found.sort("place").drop("place")
