"""What a log gives, row by row, as plain dicts: for tests of readers."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from checks.columns import SCHEMAS, SCORE_COLUMNS
from checks.log import Log
from checks.readers.open_log import open_log


def opened(path: Path) -> Log:
    """The log at a path."""
    return open_log(path)


def turns(log: Log) -> list[dict[str, Any]]:
    """Every turn with every column."""
    return [row for batch in log.batches(list(SCHEMAS["turns"])) for row in batch.turns.iter_rows(named=True)]


def scores(log: Log) -> list[dict[str, Any]]:
    """Every score with its turn's session and number."""
    found: list[dict[str, Any]] = []
    for batch in log.batches([], SCORE_COLUMNS):
        named = batch.turns.with_row_index("row").select(pl.col("row").cast(pl.UInt32), "session_id", "turn")
        found += batch.scores.join(named, on="row", maintain_order="left").iter_rows(named=True)
    return found


def rows(log: Log, table: str) -> list[dict[str, Any]]:
    """The rows of a small table, without the columns that are null in all of them."""
    frame = log.table(table)
    return list(frame.select(c for c in frame.columns if frame[c].null_count() < frame.height).iter_rows(named=True))


def write_lines(path: Path, lines: Iterable[Mapping[str, Any] | str]) -> Path:
    """A file of JSON lines; text is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines))
    return path


def unreadable(log: Log) -> list[tuple[str, str]]:
    """Place and reason of what could not be read, after a pass."""
    turns(log)
    return [(each.place, each.reason) for each in log.source().unreadable_first]
