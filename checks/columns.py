"""The columns of the frames that checks read: names, types, and which row each comes from.

A frame always has every column that was asked of it; what the log does not hold is null.
Lists of floats are Float32 or Float64, as the source had them: measures compute in float64. Numbers beyond ±1e60 are
infinite (`checks.bounded`).
Values that are JSON (`request`, `response`, `detail`) are JSON text.
"""

import polars as pl

from checks.rows import EvalRow, EventRow, FeedbackRow, RewardRow, Row, RunRow, SpanRow, StepRow, TurnRow, VersionRow

TIME = pl.Datetime("us", "UTC")
IDS = pl.List(pl.Int32)
FLOATS = pl.List(pl.Float64)
SPANS = pl.List(pl.Struct({"version": pl.String, "start": pl.Int64, "end": pl.Int64}))

_SCORE_LISTS = (
    "trainer_logprobs",
    "sampling_version_logprobs",
    "entropies",
    "reference_logprobs",
    "advantages",
)
SCORE = pl.Struct(
    {"adapter": pl.String, "trainer_step": pl.Int64, "trainer_version": pl.Int64, **dict.fromkeys(_SCORE_LISTS, FLOATS)}
)

_OWN_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    "prompt_ids": IDS,
    "completion_ids": IDS,
    "sampled_logprobs": FLOATS,
    "weight_versions": SPANS,
    "loss_mask": pl.List(pl.Int8),
    **dict.fromkeys(_SCORE_LISTS, FLOATS),
    "more_scores": pl.List(SCORE),
}
_PLAIN_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    "datetime": TIME,
    "dict": pl.String,
    "bool": pl.Boolean,
    "float": pl.Float64,
    "int": pl.Int64,
    "str": pl.String,
}

SCORE_COLUMNS = (
    "adapter",
    "trainer_step",
    "trainer_version",
    "trainer_logprobs",
    "sampling_version_logprobs",
    "entropies",
    "reference_logprobs",
    "advantages",
)
"""Columns of `Batch.scores`, beside `row`."""
COUNTED = {"prompt_tokens": "prompt_ids", "completion_tokens": "completion_ids"}
"""Narrow columns of `turns` that are counted: the length of the list, null where it is not observed."""


def _types(row: type[Row]) -> dict[str, pl.DataType | type[pl.DataType]]:
    """Column to type, from the annotations of a row."""
    types: dict[str, pl.DataType | type[pl.DataType]] = {}
    for name, annotation in row.__annotations__.items():
        plain = next(kind for kind in _PLAIN_TYPES if kind in str(annotation)) if name not in _OWN_TYPES else ""
        types[name.rstrip("_")] = _OWN_TYPES.get(name) or _PLAIN_TYPES[plain]
    return types


TABLES: dict[str, type[Row]] = {
    "turns": TurnRow,
    "steps": StepRow,
    "evals": EvalRow,
    "spans": SpanRow,
    "rewards": RewardRow,
    "feedback": FeedbackRow,
    "events": EventRow,
    "versions": VersionRow,
    "runs": RunRow,
}
"""The tables of a log, by name. All but `turns` are small and held whole."""
SCHEMAS: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {name: _types(row) for name, row in TABLES.items()}
"""Table to column to type; the column `from` of spans is the field `from_`."""
SCORES_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "row": pl.UInt32(),
    **{name: SCHEMAS["turns"][name] for name in SCORE_COLUMNS},
}
"""Columns of `Batch.scores`; `row` points into `Batch.turns`."""


def empty(table: str) -> pl.DataFrame:
    """A table without rows, all its columns there."""
    return pl.DataFrame(schema=SCHEMAS[table])


def completed(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """A frame with every column of its table, nulls where it had none.

    Its own columns keep their types, but for those that hold nothing but nulls.
    """
    schema = SCHEMAS[table]
    untyped = [name for name, dtype in frame.schema.items() if dtype == pl.Null and name in schema]
    return frame.with_columns(pl.col(name).cast(schema[name]) for name in untyped).with_columns(
        pl.lit(None, dtype=dtype).alias(name) for name, dtype in schema.items() if name not in frame.columns
    )
