"""Draws any log that the records allow: any number in any column, lists of any length, nulls anywhere."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import polars as pl

from checks.columns import SCHEMAS, TABLES

INF = float("inf")
FLOATS = (
    (-0.1, -3.0, 0.0, 0.5, 1.0),
    (1.0, 0.5, 0.25, 5e-324, 1e-300),
    (400.0, -400.0, -0.1, -700.0),
    (1000.0, -1000.0, 1e-308, 1e-250, -2.0),
    (1e20, -1e20, 1e59, -1e59, 6e59, -0.3),
    (-0.2, -1e200, 1e155, -1e308),
    (float("nan"), INF, -INF, -0.0, 0.5, 1.7e308, -1.7e308, 1e-300, -1.0),
)
"""A log's numbers are of one of these kinds: those that are large hide what the small ones do."""
INTEGERS = (0, 0, 1, 1, 2, 3, 7, -1, -2)
EVENT_KINDS = ("proof", "probe", "compaction")


class AnyLog:
    """Draws frames for every table of a log; equal seeds give equal frames."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._floats = self._draw.choice(FLOATS)

    def frames(self) -> dict[str, pl.DataFrame]:
        """By table; some empty, some columns without any value."""
        return {name: self._frame(name) for name in TABLES}

    def _frame(self, table: str) -> pl.DataFrame:
        schema, draw = SCHEMAS[table], self._draw
        required = {field.name.rstrip("_") for field in msgspec.structs.fields(TABLES[table]) if field.required}
        unseen = {name for name in schema if name not in required and draw.random() < 0.15}
        rows: list[dict[str, Any]] = []
        for number in range(draw.choice((0, 1, 5, 12, 40, 90))):
            length = draw.choice((0, 1, 3, 17)) if draw.random() < 0.7 else None
            row = {name: self._value(dtype, length) for name, dtype in schema.items()}
            row |= {name: None for name in schema if name in unseen or (name not in required and draw.random() < 0.05)}
            rows.append(row | self._of_table(table, number))
        return pl.DataFrame(rows, schema=schema)

    def _of_table(self, table: str, number: int) -> dict[str, Any]:
        """What only makes sense in some forms."""
        count = number if self._draw.random() < 0.9 else 1
        if table == "turns":
            return {"turn": count, "request": None, "response": None, "adapter_version": self._draw.choice(INTEGERS)}
        if table == "events":
            return {"kind": self._draw.choice(EVENT_KINDS), "detail": '{"verdict": "proved", "tokens": 1}'}
        return {"step": count} if table == "steps" else {}

    # Any: a value of any column.
    def _value(self, dtype: Any, length: int | None) -> Any:
        draw = self._draw
        if isinstance(dtype, pl.List):
            count = draw.randrange(5) if length is None or isinstance(dtype.inner, pl.Struct) else length
            return [self._value(dtype.inner, length) for _ in range(count)]
        if isinstance(dtype, pl.Struct):
            return {field.name: self._value(field.dtype, length) for field in dtype.fields}
        if isinstance(dtype, pl.Datetime):
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=draw.choice((0, 1, 5, 100, 1_000_000)))
        if dtype == pl.Float64:
            return draw.choice(self._floats)
        if dtype == pl.Boolean:
            return draw.random() < 0.5
        if dtype == pl.String:
            return draw.choice(("a", "b", "1", "2"))
        return draw.choice(INTEGERS if dtype == pl.Int8 else (*INTEGERS, 2**31 - 1))
