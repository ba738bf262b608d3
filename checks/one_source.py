"""One source for a curve by step, where several of a log give the same quantity."""

import polars as pl

SCHEMA = {"adapter": pl.String, "step": pl.Int64, "value": pl.Float64, "source": pl.Int64}


def one_source(*curves: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, value, source` of some frames `adapter, step, value`, the truest first: one for each adapter.

    Two sources measure in two ways, and where one took over from the other the curve would seem to move: so they are
    never mixed. The one taken is the first that knows at least half as many steps as the one that knows most;
    `source` is its place.
    """
    numbered = [
        curve.select(
            pl.col("adapter").cast(pl.String),
            pl.col("step").cast(pl.Int64),
            pl.col("value").cast(pl.Float64),
            pl.lit(place, pl.Int64).alias("source"),
        )
        for place, curve in enumerate(curves)
    ]
    every = pl.concat([pl.DataFrame(schema=SCHEMA), *numbered]).drop_nulls(["step", "value"])
    known = every.group_by("adapter", "source").len()
    enough = known.filter(2 * pl.col("len") >= pl.col("len").max().over("adapter"))
    taken = enough.group_by("adapter").agg(pl.col("source").min())
    return every.join(taken, on=["adapter", "source"], how="semi", nulls_equal=True).sort("adapter", "step")
