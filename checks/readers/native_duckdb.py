"""The native log as `roundhouse export --to FILE.duckdb` writes it: a database with real tables."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUnknownMemberType=false
# (pyarrow carries no types)

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from checks.log import Unreadable
from checks.readers.native_parquet import REQUIRED
from checks.readers.tables import Origin
from collector.errors import UserError

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "memory_limit": "1GB",
    "threads": 2,
}
_BATCH_ROWS = 2_048


def is_duckdb(start: bytes) -> bool:
    """Whether a file begins as a DuckDB database does."""
    return start[8:12] == b"DUCK"


class DuckdbTables:
    """Base tables of a database that is opened read-only and can reach nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # Attached to an instance of its own: within a process, one that is opened by its path would be shared.
            self._connection = duckdb.connect(":memory:", config=_SETTINGS)
            file = _quoted(str(path), "'")
            self._connection.execute(f"ATTACH {file} AS log (READ_ONLY)")
            for setting in ("TimeZone = 'UTC'", "enable_external_access = false", "lock_configuration = true"):
                self._connection.execute(f"SET {setting}")
            found = self._connection.execute(
                "SELECT c.table_name, c.column_name "
                "FROM duckdb_columns() c JOIN duckdb_tables() t USING (database_oid, table_oid) "
                "WHERE t.database_name = 'log' AND NOT t.internal ORDER BY c.table_oid, c.column_index"
            ).fetchall()
        except duckdb.Error as error:
            raise UserError(f"{path}: {_one_line(error)}; expected a database that roundhouse export wrote") from error
        self._columns: dict[str, list[str]] = {}
        for table, column in found:
            self._columns.setdefault(table, []).append(column)
        if not set(self._columns.get("turns", ())) >= REQUIRED:
            held = ", ".join(self._columns) or "nothing"
            raise UserError(
                f"{path}: holds {held}, expected a table turns with {', '.join(sorted(REQUIRED))}; "
                "write it with roundhouse export --to FILE.duckdb"
            )

    @property
    def origin(self) -> Origin:
        """The file and its tables."""
        return Origin(str(self._path), f"a DuckDB database with the tables {', '.join(self._columns)}", 1)

    def columns(self, table: str) -> Sequence[str]:
        """The columns of a table."""
        return self._columns.get(table, ())

    def batches(
        self, table: str, columns: Sequence[str], *, sessions: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """In the order they were inserted, which DuckDB keeps."""
        assert table in self._columns, table
        names = ", ".join(_quoted(name, '"') for name in columns)
        query, given = f"SELECT {names} FROM log.main.{table}", list[list[str]]()
        if sessions is not None:
            query += " WHERE session_id::VARCHAR IN (SELECT unnest(?::VARCHAR[]))"
            given.append(list(sessions))
        try:
            # A cursor of its own, since several scans may be under way at once.
            yield from self._connection.cursor().sql(query, params=given).to_arrow_reader(_BATCH_ROWS)
        except (duckdb.Error, pa.ArrowException) as error:
            raise UserError(
                f"{self._path}: {_one_line(error)}; expected a whole database, export the store again"
            ) from error

    def rows(self, table: str) -> int | None:
        """As the database counts them."""
        if table not in self._columns:
            return 0
        (count,) = self._connection.cursor().execute(f"SELECT count(*) FROM log.main.{table}").fetchone() or (0,)
        return int(count)

    def unreadable(self) -> Sequence[Unreadable]:
        """A database is read whole or refused."""
        return ()


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split("\n")[0].split())
