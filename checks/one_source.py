"""One source for a curve by step, where several of a log give the same quantity."""

from collections.abc import Sequence

import polars as pl

SCHEMA = {"adapter": pl.String, "step": pl.Int64, "value": pl.Float64, "source": pl.Int64}


def one_source(*curves: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, value, source` of some frames `adapter, step, value`, the truest first: one for each adapter.

    Two sources measure in two ways, and where one took over from the other the curve would seem to move: so they are
    never mixed. The one taken is the first that knows at least half as many steps as the one that knows most;
    `source` is its place.
    """
    known = [_known(curve) for curve in curves]
    counts = [dict(curve.group_by("adapter").len().iter_rows()) for curve in known]
    adapters = {adapter for count in counts for adapter in count}
    taken = {adapter: _first_enough([count.get(adapter, 0) for count in counts]) for adapter in adapters}
    pieces = [
        _of_adapters(
            curve, [adapter for adapter, which in taken.items() if which == place], len(counts[place])
        ).with_columns(source=pl.lit(place, pl.Int64))
        for place, curve in enumerate(known)
    ]
    return pl.concat([pl.DataFrame(schema=SCHEMA), *pieces]).sort("adapter", "step")


def _known(curve: pl.DataFrame) -> pl.DataFrame:
    """The points that have a step and a value."""
    return curve.select(
        pl.col("adapter").cast(pl.String), pl.col("step").cast(pl.Int64), pl.col("value").cast(pl.Float64)
    ).drop_nulls(["step", "value"])


def _first_enough(counts: Sequence[int]) -> int:
    """Place of the first that knows at least half as many as the one that knows most."""
    return next(place for place, count in enumerate(counts) if 2 * count >= max(counts))


def _of_adapters(curve: pl.DataFrame, adapters: Sequence[str | None], known: int) -> pl.DataFrame:
    """The points of some of the adapters that it knows."""
    if len(adapters) == known:
        return curve
    return curve.filter(pl.col("adapter").is_in(adapters, nulls_equal=True)) if adapters else curve.clear()
