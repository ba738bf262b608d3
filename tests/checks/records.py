"""Runs one check on records as they stand in a native log."""

from collections.abc import Sequence
from typing import Any

import msgspec

from checks.columns import TABLES
from checks.finding import Finding
from checks.readers.batching import frame_of
from checks.rows import Row
from checks.suite import run, select_checks


# Any: fields of records.
def check(name: str, thresholds: dict[str, float] | None = None, **tables: Sequence[dict[str, Any]]) -> Finding:
    """The finding of one check on records by table name; turns lack nothing but their tokens."""
    frames = {table: frame_of(converted(records, table), table) for table, records in tables.items()}
    return run(frames, checks=select_checks([name]), thresholds={name: thresholds or {}}).finding(name)


# Any: fields of records.
def converted(records: Sequence[dict[str, Any]], table: str) -> list[Row]:
    """Records as the rows of their table."""
    fields = [{("from_" if key == "from" else key): value for key, value in record.items()} for record in records]
    return [msgspec.convert(each, TABLES[table], strict=False) for each in fields]
