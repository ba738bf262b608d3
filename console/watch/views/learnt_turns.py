"""Which turns a version learned from, and which versions sampled them."""

from collections.abc import Sequence

import polars as pl

from checks.trained_step import trained_step
from console.watch.held import Held

Ranges = Sequence[tuple[str, int, int]]
"""(writer, first seq, last seq), as the registry has them."""


def turns_within(turns: pl.DataFrame, ranges: Ranges) -> pl.DataFrame:
    """The turns whose records lie in one of the ranges."""
    schema = {"writer": pl.String, "first": pl.Int64, "last": pl.Int64}
    # Of ranges that overlap the one that begins last before a record may not be the one that holds it.
    reach = pl.col("last").cum_max().over("writer")
    starts = pl.DataFrame(list(ranges), schema=schema, orient="row").sort("first").with_columns(last=reach)
    places = turns.select("writer", "seq").with_row_index("place").drop_nulls().sort("seq")
    found = places.join_asof(
        starts, left_on="seq", right_on="first", by="writer", strategy="backward", check_sortedness=False
    )
    return turns[found.filter(pl.col("seq") <= pl.col("last"))["place"].sort()]


def turns_of_steps(held: Held, adapter: str | None, first: int, last: int) -> pl.DataFrame:
    """The turns that some steps of an adapter trained on, by the first scoring of each.

    Turns without an adapter, such as the base model's, are of the only one there is.
    """
    known = [frame["adapter"].cast(pl.String) for frame in (held.turns, held.steps, held.versions)]
    named = pl.col("adapter").cast(pl.String)
    if pl.concat(known).drop_nulls().unique().to_list() == [adapter]:
        named = named.fill_null(adapter)
    mine = held.turns.select(adapter=named, trainer_step="trainer_step", trainer_version="trainer_version")
    wanted = pl.col("adapter").eq_missing(adapter) & trained_step(held.versions).is_between(first, last)
    return held.turns.filter(mine.select(wanted.fill_null(False)).to_series())


def sampler_of(turns: pl.DataFrame, adapter: str) -> int | None:
    """The version of an adapter that sampled all of these turns; None where several did, or nobody knows.

    The bare base model is version 0.
    """
    base = pl.col("adapter").is_null() & pl.col("adapter_version").is_null()
    mine = pl.when(pl.col("adapter") == adapter).then("adapter_version")
    found = turns.select(pl.when(base).then(0).otherwise(mine).alias("version"))["version"].unique().to_list()
    return found[0] if len(found) == 1 else None
