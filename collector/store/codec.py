"""A record's stored form: one msgpack array per record, its crc32, and the same values as Arrow columns.

The crc32 is of the plain form, before compression, so it can be computed again from a journal row as well as from a
row of a segment. Column kinds fix the plain form: arrays are little-endian bytes, times are microseconds since 1970,
JSON values are their UTF-8 text.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import operator
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Annotated, Any, Literal, NamedTuple, Optional, cast

import msgspec
import numpy as np
import pyarrow as pa
import zstandard

from collector.records import TABLES, Record
from collector.store.arrays import FLOATS, IDS, MASK, to_bytes
from collector.store.columns import ARROW_TYPES, Column, Kind, record_columns, stored_columns, stored_schema

TABLE_OF: dict[type[Record], str] = {record: table for table, record in TABLES.items()}
"""The table of each record type."""

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_STORED_TYPES: dict[Kind, Any] = {
    Kind.TEXT: str,
    Kind.INT: Int64,
    Kind.FLOAT: float,
    Kind.BOOL: bool,
    Kind.TIME: Int64,
    Kind.JSON: bytes,
    Kind.IDS: bytes,
    Kind.MASK: bytes,
    Kind.FLOATS: bytes,
    Kind.SPANS: list[tuple[str, Int32, Int32]],
}
_DTYPES: dict[Kind, np.dtype[Any]] = {Kind.IDS: IDS, Kind.MASK: MASK, Kind.FLOATS: FLOATS}
UNSTORABLE = (TypeError, ValueError, OverflowError, KeyError, AttributeError, struct.error, msgspec.MsgspecError)
"""What the stored form of a value that a column cannot hold raises."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PACK_FROM_BYTES = 4_000
_PACK_LEVEL = 1

_pack_plain = msgspec.msgpack.Encoder().encode
_unpack_plain = msgspec.msgpack.Decoder(list[Any]).decode
unchecked_json_text = msgspec.json.Encoder().encode
"""Compact JSON of a value; a float that JSON has no word for becomes null."""


class StoredRow(NamedTuple):
    """A record as a journal row: its place, whether its body is compressed, its crc32 and its body."""

    seq: int
    packed: int
    crc32: int
    body: bytes


def plain_values(record: Record, table: str) -> list[Any]:
    """The record's values in the plain form, in the order of its columns; delta columns are left to `delta`."""
    getter, converters = _plan(table)
    values: list[Any] = list(getter(record))
    for index, convert in converters:
        value = values[index]
        if value is not None:
            values[index] = convert(value)
    return values


def seal_row(table: str, seq: int, values: Sequence[Any]) -> StoredRow:
    """The journal row of plain stored values; raises msgspec.ValidationError when one has a wrong type."""
    plain = _pack_plain(msgspec.convert(values, _stored_struct(table)))
    crc = zlib.crc32(plain)
    texts = (values[index] for index in _json_indexes(table))
    if sum(len(text) for text in texts if text) >= _PACK_FROM_BYTES:
        packed = _zstd.compressor.compress(plain)
        if len(packed) < len(plain) * 0.9:
            return StoredRow(seq, 1, crc, packed)
    return StoredRow(seq, 0, crc, plain)


def unstorable_fields(record: Record) -> dict[str, object]:
    """The fields whose values their columns cannot hold, and what can stand there in their place: nothing."""
    fields = msgspec.structs.fields(type(record))
    columns = record_columns(TABLE_OF[type(record)])
    found: dict[str, object] = {}
    for field, column in zip(fields, columns, strict=True):
        value = getattr(record, field.name)
        try:
            _pack_plain(msgspec.convert(_CONVERTERS.get(column.kind, lambda same: same)(value), _stored_type(column)))
        except UNSTORABLE:
            if value is not None and (column.nullable or isinstance(value, list)):
                found[field.name] = None if column.nullable else []
    return found


def open_row(row: StoredRow) -> list[Any] | None:
    """The plain stored values of a journal row; None when they are not what was written."""
    try:
        plain = _zstd.decompressor.decompress(row.body) if row.packed else row.body
        return _unpack_plain(plain) if zlib.crc32(plain) == row.crc32 else None
    except (zstandard.ZstdError, msgspec.DecodeError):
        return None


def is_whole(row: StoredRow) -> bool:
    """Whether a journal row is what was written."""
    return open_row(row) is not None


def json_text(value: object) -> bytes:
    """Compact JSON of a value; raises ValueError for a float that JSON cannot hold."""
    text = unchecked_json_text(value)
    check_json(value, text)
    return text


def check_json(value: object, text: bytes) -> None:
    """Raises ValueError when the value held a float that JSON has no word for; the encoder writes null for it."""
    if b"null" in text and value is not None:
        _refuse_not_finite(value)


def to_arrow(table: str, writer: str, rows: Sequence[tuple[int, int, Sequence[Any]]]) -> pa.Table:
    """Rows of (seq, crc32, plain stored values) as a table with the columns of a segment."""
    columns = stored_columns(table)
    by_column = zip(*(values for _, _, values in rows), strict=True) if rows else ([] for _ in columns)
    arrays = [_to_array(column, values) for column, values in zip(columns, by_column, strict=True)]
    seqs = pa.array([seq for seq, _, _ in rows], pa.int64())
    crcs = pa.array([crc for _, crc, _ in rows], pa.uint32())
    writers = pa.repeat(pa.scalar(writer, pa.string()), len(rows))
    return pa.Table.from_arrays([*arrays, writers, seqs, crcs], schema=stored_schema(table))


def from_arrow(table: str, stored: pa.Table) -> list[StoredRow]:
    """The rows of a segment as uncompressed journal rows; the crc32 is the one the segment carries, not recomputed."""
    columns = [_from_array(column, stored[column.name]) for column in stored_columns(table)]
    seqs, crcs = stored["seq"].to_pylist(), stored["crc32"].to_pylist()
    return [
        StoredRow(seq, 0, crc, _pack_plain(values))
        for seq, crc, values in zip(seqs, crcs, zip(*columns, strict=True), strict=True)
    ]


@cache
def _plan(table: str) -> tuple[Callable[[Record], Sequence[Any]], tuple[tuple[int, Callable[[Any], Any]], ...]]:
    columns = record_columns(table)
    attributes = [field.name for field in msgspec.structs.fields(TABLES[table])]
    deferred = {"prompt_ids", "request"} if table == "turns" else set[str]()
    converters = tuple(
        (index, _CONVERTERS[column.kind])
        for index, column in enumerate(columns)
        if column.kind in _CONVERTERS and column.name not in deferred
    )
    return cast("Callable[[Record], Sequence[Any]]", operator.attrgetter(*attributes)), converters


@cache
def _json_indexes(table: str) -> tuple[int, ...]:
    return tuple(index for index, column in enumerate(stored_columns(table)) if column.kind is Kind.JSON)


def _stored_type(column: Column) -> Any:
    solid: Any = Literal[column.choices] if column.choices else _STORED_TYPES[column.kind]
    return Optional[solid] if column.nullable else solid  # noqa: UP045


@cache
def _stored_struct(table: str) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any]] = []
    for column in stored_columns(table):
        fields.append((f"c_{column.name}", _stored_type(column)))
    return msgspec.defstruct(f"Stored_{table}", fields, array_like=True, frozen=True)


class _Zstd(threading.local):
    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_PACK_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def _microseconds(at: datetime) -> int:
    if at.tzinfo is None:
        raise ValueError(f"time {at} has no time zone, expected UTC")
    return (at - _EPOCH) // _MICROSECOND


def _refuse_not_finite(value: object) -> None:
    if isinstance(value, float) and not np.isfinite(value):
        raise ValueError(f"JSON cannot hold {value}")
    if isinstance(value, dict):
        for inner in cast("dict[object, object]", value).values():
            _refuse_not_finite(inner)
    elif isinstance(value, (list, tuple)):
        for inner in cast("Sequence[object]", value):
            _refuse_not_finite(inner)


def _span_tuples(spans: Iterable[Any]) -> list[tuple[str, int, int]]:
    return [(str(span.version), span.start, span.end) for span in spans]


_CONVERTERS: dict[Kind, Callable[[Any], Any]] = {
    Kind.TIME: _microseconds,
    Kind.JSON: json_text,
    Kind.IDS: lambda values: to_bytes(values, IDS),
    Kind.MASK: lambda values: to_bytes(values, MASK),
    Kind.FLOATS: lambda values: to_bytes(values, FLOATS),
    Kind.SPANS: _span_tuples,
}


def list_array(column: Column, values: Sequence[bytes | None]) -> pa.Array:
    """Packed arrays as one Arrow list array."""
    dtype = _DTYPES[column.kind]
    flat = pa.array(np.frombuffer(b"".join(v for v in values if v), dtype))
    ends = accumulate((len(v) // dtype.itemsize if v else 0 for v in values), initial=0)
    offsets = pa.array(np.fromiter(ends, np.int32, len(values) + 1))
    missing = pa.array([v is None for v in values]) if any(v is None for v in values) else None
    return pa.ListArray.from_arrays(offsets, flat, type=ARROW_TYPES[column.kind], mask=missing)


def list_bytes(column: Column, array: pa.Array) -> list[bytes | None]:
    """The lists of an Arrow array as packed bytes."""
    dtype = _DTYPES[column.kind]
    flat = array.values.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    packed = np.ascontiguousarray(flat).tobytes()
    bounds = (array.offsets.to_numpy() * dtype.itemsize).tolist()
    rows = [packed[lo:hi] for lo, hi in pairwise(bounds)]
    if not array.null_count:
        return cast("list[bytes | None]", rows)
    return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


def column_bytes(column: Column, values: pa.ChunkedArray) -> list[bytes | None]:
    """The lists of a whole Arrow column as packed bytes."""
    return [row for chunk in values.chunks for row in list_bytes(column, chunk)]


def _to_array(column: Column, values: Sequence[Any]) -> pa.Array:
    if column.kind in _DTYPES:
        return list_array(column, values)
    if column.kind is Kind.JSON:
        return pa.array(values, pa.binary()).cast(pa.string())
    if column.kind is Kind.TIME:
        return pa.array(values, pa.int64()).cast(ARROW_TYPES[column.kind])
    if column.kind is Kind.SPANS:
        return _span_array(column, values)
    return pa.array(values, ARROW_TYPES[column.kind])


def _span_array(column: Column, values: Sequence[Sequence[Sequence[Any]]]) -> pa.Array:
    spans = list(chain.from_iterable(values))
    parts = list(zip(*spans, strict=True)) if spans else [(), (), ()]
    kind = ARROW_TYPES[column.kind].value_type
    fields = [pa.array(part, kind.field(i).type) for i, part in enumerate(parts)]
    offsets = np.fromiter(accumulate(map(len, values), initial=0), np.int32, len(values) + 1)
    flat = pa.StructArray.from_arrays(fields, fields=list(kind))
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=ARROW_TYPES[column.kind])


def _from_array(column: Column, values: pa.ChunkedArray) -> Sequence[Any]:
    if column.kind in _DTYPES:
        return column_bytes(column, values)
    if column.kind is Kind.JSON:
        return values.cast(pa.binary()).to_pylist()
    if column.kind is Kind.TIME:
        return values.cast(pa.int64()).to_pylist()
    if column.kind is Kind.SPANS:
        return [[(s["version"], s["start"], s["end"]) for s in spans] for spans in values.to_pylist()]
    return values.to_pylist()
