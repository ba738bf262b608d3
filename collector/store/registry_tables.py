"""The registry as Arrow tables, beside those of the journals."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from collector.records import REGISTRY_TABLES, Record
from collector.store.registry_rows import open_read_only, read_rows

_TIME = pa.timestamp("us", tz="UTC")
_RANGES = pa.list_(pa.struct([("writer", pa.string()), ("first_seq", pa.int64()), ("last_seq", pa.int64())]))
REGISTRY_SCHEMAS: Mapping[str, pa.Schema] = {
    "adapters": pa.schema(
        [("adapter", pa.string()), ("tenant", pa.string()), ("base_model", pa.string()), ("created_at", _TIME)]
    ),
    "versions": pa.schema(
        [
            ("adapter", pa.string()),
            ("version", pa.int64()),
            ("state", pa.string()),
            ("parent", pa.int64()),
            ("optimizer_step", pa.int64()),
            ("folder", pa.string()),
            ("sha256", pa.string()),
            ("trained_on", _RANGES),
            ("gate", pa.string()),
            ("created_at", _TIME),
            ("changed_at", _TIME),
        ]
    ),
    "routes": pa.schema(
        [("tenant", pa.string()), ("adapter", pa.string()), ("version", pa.int64()), ("weight", pa.float64())]
    ),
    "audit": pa.schema(
        [
            ("revision", pa.int64()),
            ("at", _TIME),
            ("actor", pa.string()),
            ("reason", pa.string()),
            ("action", pa.string()),
            ("tenant", pa.string()),
            ("adapter", pa.string()),
            ("version", pa.int64()),
            ("detail", pa.string()),
        ]
    ),
}
"""Columns of the registry's tables; `gate` and `detail` are JSON text."""


def registry_tables(store: Path) -> dict[str, pa.Table]:
    """The registry of a store, as of one revision; empty tables when it has none."""
    with open_read_only(store) as connection:
        return {
            table: _table(REGISTRY_SCHEMAS[table], [] if connection is None else read_rows(connection, record))
            for table, record in REGISTRY_TABLES.items()
        }


def _table(schema: pa.Schema, records: Sequence[Record]) -> pa.Table:
    return pa.Table.from_pylist([_row(record) for record in records], schema=schema)


def _row(record: Record) -> dict[str, object]:
    row = msgspec.structs.asdict(record)
    for name in ("gate", "detail"):
        if row.get(name) is not None:
            row[name] = msgspec.json.encode(row[name]).decode()
    if "trained_on" in row:
        names = ("writer", "first_seq", "last_seq")
        row["trained_on"] = [dict(zip(names, span, strict=True)) for span in row["trained_on"]]
    return row
