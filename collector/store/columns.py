"""The columns of every table: as records name them, as they are stored, and as Arrow types."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import types
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa

from collector.records import TABLES, ChatRequest, VersionSpan


class Kind(StrEnum):
    """How a column's values look in memory, in the journal and in Arrow."""

    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TIME = "time"
    JSON = "json"
    IDS = "ids"
    MASK = "mask"
    FLOATS = "floats"
    SPANS = "spans"


class Column(NamedTuple):
    """One column."""

    name: str
    kind: Kind
    nullable: bool
    choices: tuple[str, ...] = ()
    """The only texts allowed; empty when any is."""


ARROW_TYPES: dict[Kind, pa.DataType] = {
    Kind.TEXT: pa.string(),
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.TIME: pa.timestamp("us", tz="UTC"),
    Kind.JSON: pa.string(),
    Kind.IDS: pa.list_(pa.int32()),
    Kind.MASK: pa.list_(pa.int8()),
    Kind.FLOATS: pa.list_(pa.float32()),
    Kind.SPANS: pa.list_(pa.struct([("version", pa.string()), ("start", pa.int32()), ("end", pa.int32())])),
}
"""Arrow type of each kind; JSON values are their text."""

DELTA_COLUMNS: dict[str, tuple[Column, ...]] = {
    "prompt_ids": (
        Column("prefix_seq", Kind.INT, True),
        Column("prompt_prefix_tokens", Kind.INT, False),
        Column("new_prompt_ids", Kind.IDS, False),
    ),
    "request": (
        Column("request_prefix_messages", Kind.INT, True),
        Column("new_messages", Kind.JSON, True),
        Column("request_rest", Kind.JSON, True),
    ),
}
"""What turns keep instead of two of their columns: the part that an earlier turn (`prefix_seq`) does not hold."""

KEY_FIELDS = (pa.field("writer", pa.string()), pa.field("seq", pa.int64()), pa.field("crc32", pa.uint32()))
"""What the store adds to every record."""


@cache
def record_columns(table: str) -> tuple[Column, ...]:
    """A table's columns as its record names them."""
    record = TABLES[table]
    hints = get_type_hints(record)
    fields = msgspec.structs.fields(record)
    return tuple(_column(field.encode_name, hints[field.name]) for field in fields)


@cache
def stored_columns(table: str) -> tuple[Column, ...]:
    """A table's columns as journals and segments keep them."""
    if table != "turns":
        return record_columns(table)
    return tuple(kept for column in record_columns(table) for kept in DELTA_COLUMNS.get(column.name, (column,)))


@cache
def stored_schema(table: str) -> pa.Schema:
    """Arrow schema of a table's segments."""
    return pa.schema([*(pa.field(c.name, ARROW_TYPES[c.kind], c.nullable) for c in stored_columns(table)), *KEY_FIELDS])


@cache
def record_schema(table: str) -> pa.Schema:
    """Arrow schema of what a reader gives; all nullable, since a prompt may have lost what it was kept as."""
    return pa.schema([*(pa.field(c.name, ARROW_TYPES[c.kind]) for c in record_columns(table)), *KEY_FIELDS])


def _column(name: str, hint: object) -> Column:
    choices = get_args(hint) if get_origin(hint) in (types.UnionType, Union) else (hint,)
    solid = [choice for choice in choices if choice is not type(None)]
    assert len(solid) == 1, f"{name}: a column has one type, found {hint}"
    texts = get_args(solid[0]) if get_origin(solid[0]) is Literal else ()
    return Column(name, _kind(name, solid[0]), len(choices) > 1, texts)


def _kind(name: str, hint: object) -> Kind:
    if get_origin(hint) is Literal or hint is str:
        return Kind.TEXT
    if hint is datetime:
        return Kind.TIME
    if hint == list[VersionSpan]:
        return Kind.SPANS
    if hint == list[int]:
        return Kind.MASK if name == "loss_mask" else Kind.IDS
    if hint == list[float]:
        return Kind.FLOATS
    if hint is ChatRequest or get_origin(hint) is dict:
        return Kind.JSON
    scalars: dict[object, Kind] = {int: Kind.INT, float: Kind.FLOAT, bool: Kind.BOOL}
    return scalars[hint]
