"""Columns as files hold them, turned into the types that checks read; what cannot be is refused by name."""

import polars as pl

from checks.bounded import bounded
from checks.columns import IDS, SCHEMAS, SCORE, SCORES_SCHEMA, SPANS, TIME
from checks.lag import label_version
from collector.errors import UserError

_EXPECTED: tuple[tuple[pl.DataType | type[pl.DataType], str], ...] = (
    (pl.String, "text"),
    (pl.Int64, "integers"),
    (pl.Float64, "numbers"),
    (pl.Boolean, "true or false"),
    (TIME, "timestamps"),
    (IDS, "lists of integers that fit int32"),
    (pl.List(pl.Int8), "lists of 0 and 1"),
    (pl.List(pl.Float64), "lists of numbers"),
    (SPANS, "lists of {version, start, end}"),
    (pl.List(SCORE), f"lists of {{{', '.join(field.name for field in SCORE.fields)}}}"),
)


def typed(frame: pl.DataFrame, table: str, path: str) -> pl.DataFrame:
    """The frame's columns in the types of a table (`scores` too); columns that the table has not are left out."""
    schema = SCORES_SCHEMA | {"turn_id": pl.String} if table == "scores" else SCHEMAS[table]
    columns = [_typed(column, schema[column.name], f"{path}: {table}") for column in frame if column.name in schema]
    return bounded(pl.DataFrame(columns))


def _typed(column: pl.Series, wanted: pl.DataType | type[pl.DataType], place: str) -> pl.Series:
    if column.dtype == wanted or (wanted == pl.List(pl.Float64) and column.dtype == pl.List(pl.Float32)):
        return column
    expected = next(text for kind, text in _EXPECTED if kind == wanted)
    labelled = wanted == pl.Int64 and column.name.endswith(("version", "step"))
    if not _may_become(column.dtype, wanted, labelled=labelled):
        raise UserError(
            f"{place}.{column.name} holds {column.dtype}, expected {expected}; write it as that or leave it out"
        )
    try:
        return _cast(column, wanted)
    except pl.exceptions.PolarsError as error:
        found = " ".join(str(error).split())
        raise UserError(
            f"{place}.{column.name}: {found}; expected {expected}; write it as that or leave it out"
        ) from error


def _may_become(found: pl.DataType, wanted: pl.DataType | type[pl.DataType], *, labelled: bool) -> bool:
    if found == pl.Null:
        return True
    if isinstance(found, pl.Array):
        found = pl.List(found.inner)
    if isinstance(found, pl.List):
        inner = found.inner
        assert isinstance(inner, pl.DataType)
        if inner == pl.Null:
            return isinstance(wanted, pl.List)
        return _inner_may_become(inner, wanted)
    if wanted == pl.String:
        return found.is_integer() or isinstance(found, pl.String | pl.Categorical | pl.Enum | pl.Struct)
    if wanted == pl.Boolean:
        return found.is_integer()
    if wanted in (pl.Float64, pl.Int64):
        return found.is_numeric() or (labelled and isinstance(found, pl.String | pl.Categorical))
    return wanted == TIME and isinstance(found, pl.Datetime)


def _inner_may_become(inner: pl.DataType, wanted: pl.DataType | type[pl.DataType]) -> bool:
    if wanted == SPANS:
        return isinstance(inner, pl.Struct) and {"version", "start", "end"} <= {field.name for field in inner.fields}
    if wanted == pl.List(pl.Float64):
        return inner.is_numeric()
    if wanted == pl.List(pl.Int8):
        return inner.is_numeric() or inner == pl.Boolean
    return wanted == IDS and inner.is_integer()


def _cast(column: pl.Series, wanted: pl.DataType | type[pl.DataType]) -> pl.Series:
    if wanted == pl.Int64 and not column.dtype.is_numeric() and column.dtype != pl.Null:
        return column.to_frame().select(label_version(pl.col(column.name).cast(pl.String))).to_series()
    if isinstance(column.dtype, pl.Struct) and wanted == pl.String:
        return column.struct.json_encode()
    if wanted == pl.Int64 and column.dtype.is_float() and (column != column.round()).any():
        # Whole numbers are let in: it is what pandas makes of a column of integers with gaps.
        raise pl.exceptions.ComputeError("it has fractions")
    flags = column.explode() if wanted == pl.List(pl.Int8) else column
    if wanted in (pl.Boolean, pl.List(pl.Int8)) and not flags.drop_nulls().cast(pl.Float64).is_in([0.0, 1.0]).all():
        raise pl.exceptions.ComputeError("it has numbers other than 0 and 1")
    if wanted == TIME and isinstance(column.dtype, pl.Datetime):
        # A time without a zone is taken for what every other time of the log is: UTC.
        zoned = column.dt.replace_time_zone("UTC") if column.dtype.time_zone is None else column
        return zoned.dt.convert_time_zone("UTC").cast(TIME)
    if wanted == SPANS and isinstance(column.dtype, pl.List) and isinstance(column.dtype.inner, pl.Struct):
        fields = [pl.element().struct.field(field.name) for field in SPANS.inner.fields]  # pyright: ignore
        column = column.list.eval(pl.when(pl.element().is_not_null()).then(pl.struct(fields)))
    return column.cast(wanted)
