"""Numbers of a log that are too large to be measured: read as infinite, which every check knows."""

import polars as pl

LARGEST = 1e60
"""No log-probability, reward, norm or count is as large; the squares of larger numbers, added up, do not fit a float.
The least float32, with which masked logits are filled, is -3.4e38."""


def bounded(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with numbers beyond ±`LARGEST`, in its columns and lists of float64, as ±infinity."""
    return frame.with_columns(_bounded(column) for column in frame if _may_be_beyond(column))


def _may_be_beyond(column: pl.Series) -> bool:
    if column.dtype == pl.List(pl.Float64):
        column = column.explode()
    # To Polars NaN is larger than every number.
    return column.dtype == pl.Float64 and bool((column.abs() > LARGEST).any())


def _bounded(column: pl.Series) -> pl.Series:
    if column.dtype == pl.List(pl.Float64):
        return column.list.eval(_infinite_beyond(pl.element()))
    return column.to_frame().select(_infinite_beyond(pl.col(column.name))).to_series()


def _infinite_beyond(number: pl.Expr) -> pl.Expr:
    beyond = number.is_finite() & (number.abs() > LARGEST)
    return pl.when(beyond).then(number.sign() * float("inf")).otherwise(number)
