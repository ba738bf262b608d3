"""The native log as Parquet files: a file of turns, or a folder with a file, or several, for each table."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUnknownMemberType=false, reportAttributeAccessIssue=false
# (pyarrow carries no types)

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checks.columns import TABLES
from checks.log import Unreadable
from checks.readers.tables import Origin

REQUIRED = frozenset({"session_id", "prompt_ids", "completion_ids"})
"""What a file of turns must have."""
_NAMES = ("scores", *TABLES)
_BATCH_VALUES = 2_000_000
_BATCH_ROWS = 16_384
_READ_BYTES = 2**20
_BROKEN = (OSError, ValueError, RuntimeError, pa.ArrowException)


def native_table(path: Path, root: Path) -> str | None:
    """The native table that a Parquet file below a folder holds: turns by its columns, others by their name."""
    columns = columns_of(path)
    if columns >= REQUIRED:
        return "turns"
    named = _table_named(path, root)
    return named if named != "turns" else None


def columns_of(path: Path) -> frozenset[str]:
    """The columns of a Parquet file; none when its footer cannot be read."""
    try:
        return frozenset(pq.read_schema(path).names)
    except _BROKEN:
        return frozenset()


def _table_named(path: Path, root: Path) -> str | None:
    """The table that a file's name says, or that of a folder below the root: `scores-1.parquet`, `scores/….parquet`."""
    for name in reversed(path.relative_to(root).parts if path != root else (path.name,)):
        stem = re.split(r"[-_.=]?\d|\.", name, maxsplit=1)[0].rstrip("-_")
        if stem in _NAMES:
            return stem
    return None


class ParquetTables:
    """Native tables in Parquet files; several files of one table are read in the order of their names."""

    def __init__(self, path: Path, files: Mapping[str, Sequence[Path]]) -> None:
        self._path = path
        self._files = files
        self._unreadable: dict[str, Unreadable] = {}
        self._schemas = {file: self._schema(file) for of_table in files.values() for file in of_table}

    @property
    def origin(self) -> Origin:
        """The folder or file, and its tables."""
        held = ", ".join(f"{table} ({len(files)})" for table, files in self._files.items())
        files = sum(map(len, self._files.values()))
        return Origin(str(self._path), f"Parquet files of native tables: {held}", files)

    def columns(self, table: str) -> Sequence[str]:
        """Every column that any file of the table has."""
        return list(dict.fromkeys(name for file in self._files.get(table, ()) for name in self._schemas[file]))

    def batches(
        self, table: str, columns: Sequence[str], *, sessions: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """File by file, less the row groups without those sessions; a column that a file has not is not there."""
        for path in self._files.get(table, ()):
            held = [name for name in columns if name in self._schemas[path]]
            try:
                # Read piece by piece: a row group may be larger than memory.
                with pq.ParquetFile(path, pre_buffer=False, buffer_size=_READ_BYTES) as file:
                    rows, groups = _rows_at_once(file, held), _groups_with(file, sessions)
                    yield from file.iter_batches(rows, row_groups=groups, columns=held, use_threads=False)
            except _BROKEN as error:
                self._lose(path, error)

    def rows(self, table: str) -> int | None:
        """From the files' footers."""
        return sum(self._rows_of(path) for path in self._files.get(table, ()))

    def unreadable(self) -> Sequence[Unreadable]:
        """Files that could not be read to their end."""
        return list(self._unreadable.values())

    def _schema(self, path: Path) -> Sequence[str]:
        try:
            return pq.read_schema(path).names
        except _BROKEN as error:
            self._lose(path, error)
            return ()

    def _rows_of(self, path: Path) -> int:
        return pq.read_metadata(path).num_rows if self._schemas[path] else 0

    def _lose(self, path: Path, error: Exception) -> None:
        found = " ".join(str(error).split())
        self._unreadable[str(path)] = Unreadable(place=path.name, reason=f"{found}; expected a whole Parquet file")


def _groups_with(file: pq.ParquetFile, sessions: Collection[str] | None) -> list[int]:
    """The row groups that hold turns of some sessions."""
    groups = list(range(file.num_row_groups))
    if sessions is None or "session_id" not in file.schema_arrow.names:
        return groups
    wanted = pa.array(sessions, pa.string())
    return [group for group in groups if _holds(file.read_row_group(group, ["session_id"])["session_id"], wanted)]


def _holds(names: pa.ChunkedArray, wanted: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(names.cast(pa.string()), wanted)).as_py())


def _rows_at_once(file: pq.ParquetFile, columns: Sequence[str]) -> int:
    """How many rows have about as many values as a batch of turns has tokens."""
    most = 1.0
    for group in range(min(file.num_row_groups, 8)):
        held = file.metadata.row_group(group)
        values = {
            column.path_in_schema.partition(".")[0]: column.num_values
            for column in map(held.column, range(held.num_columns))
        }
        wanted = [values[name] for name in columns if name in values]
        most = max(most, sum(wanted) / max(1, held.num_rows))
    return max(1, min(_BATCH_ROWS, int(_BATCH_VALUES / most)))
