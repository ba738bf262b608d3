"""Runs one check on records as they stand in a native log."""

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl

from checks.columns import TABLES
from checks.finding import Finding
from checks.readers.batching import frame_of
from checks.suite import run, select_checks


# Any: fields of records.
def check(name: str, thresholds: dict[str, float] | None = None, **tables: Sequence[dict[str, Any]]) -> Finding:
    """The finding of one check on records by table name; turns lack nothing but their tokens."""
    frames: dict[str, pl.DataFrame] = {}
    for table, records in tables.items():
        fields = [{("from_" if key == "from" else key): value for key, value in record.items()} for record in records]
        frames[table] = frame_of([msgspec.convert(each, TABLES[table], strict=False) for each in fields], table)
    return run(frames, checks=select_checks([name]), thresholds={name: thresholds or {}}).finding(name)
