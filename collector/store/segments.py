"""Sealed segments: immutable Parquet files that are whole under their name or not there at all."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from collector.store.columns import Kind, stored_columns, stored_schema
from collector.store.journal import Segment, now_text
from collector.store.layout import Layout, SegmentName, fsync_folder

ROW_GROUP_ROWS = 2_048
"""Rows of a row group: what one damaged page can cost."""

_WITH_STATISTICS = ("session_id", "turn_id", "at", "started_at")

Hook = Callable[[str], None]
"""Called with the name of a point that was reached; tests kill the process there."""


def no_hook(point: str) -> None:
    """The hook of everyday work: nothing happens at a point."""


def write_segment(layout: Layout, table: str, rows: pa.Table, writer: str, generation: int, hook: Hook) -> Segment:
    """Writes rows as a durable segment and returns its entry for the catalogue."""
    seqs = rows["seq"].to_pylist()
    name = str(SegmentName(writer, min(seqs), max(seqs), generation))
    content = _parquet(table, rows)
    write_durably(layout.table(table) / name, content, hook)
    digest = hashlib.sha256(content).hexdigest()
    return Segment(name, table, min(seqs), max(seqs), len(seqs), len(content), digest, now_text())


def write_schema_file(layout: Layout, table: str) -> None:
    """Writes the table's zero-row file when it is not there or has other columns."""
    path = layout.schema_file(table)
    wanted = stored_schema(table)
    if not _has_schema(path, wanted):
        write_durably(path, _parquet(table, wanted.empty_table()), no_hook)


def write_durably(path: Path, content: memoryview | bytes, hook: Hook, *, mode: int | None = None) -> None:
    """Puts a file in place in one step that survives a power loss; `mode` is what its content is written under."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        hook("tmp_written")
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)
    hook("renamed")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_schema(path: Path, wanted: pa.Schema) -> bool:
    try:
        return pq.read_schema(path).equals(wanted)
    except (OSError, pa.ArrowException):
        # Not there, or damaged: it holds no row, so it is written anew.
        return False


def _parquet(table: str, rows: pa.Table) -> memoryview:
    columns = stored_columns(table)
    floats = {f"{c.name}.list.element": "BYTE_STREAM_SPLIT" for c in columns if c.kind is Kind.FLOATS}
    repeated = [c.name for c in columns if c.kind is Kind.TEXT]
    statistics = ["seq", *(c.name for c in columns if c.name in _WITH_STATISTICS)]
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression="zstd",
        compression_level=1,
        use_dictionary=[*repeated, "writer"],  # pyright: ignore[reportArgumentType]
        column_encoding=floats or None,
        row_group_size=ROW_GROUP_ROWS,
        write_statistics=statistics,  # pyright: ignore[reportArgumentType]
        write_page_checksum=True,
    )
    return memoryview(sink.getvalue())
