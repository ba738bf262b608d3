"""Checks a sealed segment against the catalogue, and its rows against their crc32."""

# pyright: reportAttributeAccessIssue=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import zlib
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from collector.store import codec
from collector.store.columns import stored_schema
from collector.store.health import Fault
from collector.store.journal import Segment
from collector.store.layout import Layout
from collector.store.segments import sha256_of

_SAVE = "its whole rows are saved into a new segment, the file is moved to quarantine/"


class TurnKeys(NamedTuple):
    """What the check of prompt deltas needs of a turn: what it extends and how many tokens it holds."""

    prefix_seq: int | None
    prefix_tokens: int
    tokens: int


class CheckedSegment(NamedTuple):
    """A segment's whole rows: their seqs, their turn keys, and what is wrong with the file."""

    seqs: list[int]
    turns: dict[int, TurnKeys]
    fault: Fault | None


def check_segment(layout: Layout, segment: Segment) -> CheckedSegment:
    """Reads a segment in full; a row counts when its crc32 does."""
    path = layout.table(segment.tbl) / segment.name
    where = f"segments/{segment.tbl}/{segment.name}"
    if not path.exists():
        return CheckedSegment([], {}, Fault(where, "no such file", "a sealed segment", "its records are noted as lost"))
    found = sha256_of(path)
    fault = None
    if found != segment.sha256:
        fault = Fault(where, f"sha256 {found[:12]}", f"{segment.sha256[:12]} as sealed", _SAVE)
    seqs: list[int] = []
    turns: dict[int, TurnKeys] = {}
    broken = 0
    for rows in whole_rows(path, segment.tbl):
        seqs += rows["seq"].to_pylist()
        turns.update(turn_keys(rows) if segment.tbl == "turns" else {})
    broken = segment.row_count - len(seqs)
    if broken and fault is None:
        fault = Fault(where, f"{broken} rows fail their crc32", f"{segment.row_count} whole rows", _SAVE)
    return CheckedSegment(seqs, turns, fault)


def whole_rows(path: Path, table: str) -> list[pa.Table]:
    """The rows whose crc32 holds, a row group at a time; a group that cannot be decoded gives none."""
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(stored_schema(table)):
                return []
            groups = [_read_group(file, group) for group in range(file.num_row_groups)]
    except (OSError, ValueError, pa.ArrowException):
        return []
    return [_whole(table, rows) for rows in groups if rows is not None]


def turn_keys(rows: pa.Table) -> dict[int, TurnKeys]:
    """The turn keys of stored turns, by seq."""
    new = pc.list_value_length(rows["new_prompt_ids"]).to_pylist()
    sampled = pc.list_value_length(rows["completion_ids"]).to_pylist()
    places = zip(rows["seq"].to_pylist(), rows["prefix_seq"].to_pylist(), strict=True)
    lengths = zip(rows["prompt_prefix_tokens"].to_pylist(), new, sampled, strict=True)
    return {
        seq: TurnKeys(prefix, held, held + added + completion)
        for (seq, prefix), (held, added, completion) in zip(places, lengths, strict=True)
    }


def _read_group(file: pq.ParquetFile, group: int) -> pa.Table | None:
    try:
        rows = file.read_row_group(group)
        rows.validate(full=True)
    except (OSError, ValueError, pa.ArrowException):
        return None
    return rows


def _whole(table: str, rows: pa.Table) -> pa.Table:
    kept = [zlib.crc32(row.body) == row.crc32 for row in codec.from_arrow(table, rows)]
    return rows if all(kept) else rows.filter(pa.array(kept))
