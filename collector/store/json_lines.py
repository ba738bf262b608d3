"""Records as lines of JSON: the native log in one file."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from collector.records import REGISTRY_TABLES, TABLES, ChatRequest, VersionSpan

RECORD_NAMES = {table: record.__name__.lower() for table, record in (TABLES | REGISTRY_TABLES).items()}
"""Table to what `record` says on its lines."""

# As Python's numbers a token takes eight times its bytes, so a batch is turned into them a slice at a time.
_SLICE_BYTES = 4 * 2**20

# Any throughout: the values of a row, whose types the record gave them when it was written.
_Convert = Callable[[Any], Any]


def json_lines(table: str, batch: pa.RecordBatch) -> Iterator[bytes]:
    """A line for each row: the record's fields, JSON columns as JSON, and a float that is not finite as its name."""
    rows = max(1, _SLICE_BYTES * batch.num_rows // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield from _lines(table, batch.slice(start, rows))


def _lines(table: str, batch: pa.RecordBatch) -> Iterator[bytes]:
    record = (TABLES | REGISTRY_TABLES)[table]
    converters = {field.encode_name: _converter(field) for field in msgspec.structs.fields(record)}
    names = list(converters)
    columns = [
        _values(batch.column(name).to_pylist(), convert, floats=_holds_floats(batch.schema.field(name).type))
        for name, convert in converters.items()
    ]
    kind = RECORD_NAMES[table]
    for row in zip(*columns, strict=True):
        yield msgspec.json.encode({"record": kind, **dict(zip(names, row, strict=True))}) + b"\n"


def _values(values: list[Any], convert: _Convert | None, *, floats: bool) -> list[Any]:
    if floats:
        return [_finite_or_named(value) for value in values]
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _converter(field: msgspec.structs.FieldInfo) -> _Convert | None:
    if field.type == list[VersionSpan]:
        return _spans
    if field.type == list[tuple[str, int, int]]:
        return lambda ranges: [tuple(span.values()) for span in ranges]
    if "dict" in str(field.type) or ChatRequest.__name__ in str(field.type):
        return lambda text: msgspec.Raw(text.encode())
    return None


def _spans(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**span, "version": _label(span["version"])} for span in spans]


def _label(version: str) -> int | str:
    # A label is stored as text; it was an integer exactly when writing that integer gives the text again.
    try:
        return int(version) if str(int(version)) == version else version
    except ValueError:
        return version


def _holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _holds_floats(kind.value_type)
    return pa.types.is_floating(kind)


def _finite_or_named(value: float | list[float] | None) -> object:
    if isinstance(value, list):
        return value if all(map(math.isfinite, value)) else [_finite_or_named(each) for each in value]
    return value if value is None or math.isfinite(value) else _name(value)


def _name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
