"""An SQLite file that somebody else may be writing: read only, row by row, whatever it holds."""

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from checks.readers.unreadable import UnreadableParts

VALUE_LIMIT = 256 * 2**20
"""Largest text or blob that is read."""


@contextmanager
def read_only(path: Path, unreadable: UnreadableParts) -> Generator["Tables | None"]:
    """The database's tables as of now, a live write-ahead log included; None after counting why it cannot be read."""
    try:
        connection = _connected(path)
    except (sqlite3.Error, OSError) as error:
        unreadable.add(path.name, f"SQLite cannot open it: {error}")
        yield None
        return
    try:
        with closing(connection):
            yield Tables(path, connection, unreadable)
    except sqlite3.Error as error:
        unreadable.add(path.name, f"SQLite cannot read it on: {error}; what came before it was read")


def _connected(path: Path) -> sqlite3.Connection:
    """Opens it without leaving anything behind in its folder.

    A read-only connection makes the two side files of a write-ahead log and cannot delete them. So they are used
    where a writer has left them, or has them open; where there are none, the file alone is the whole database.
    """
    place = quote(str(path.absolute()))
    at_rest = f"file:{place}?mode=ro&immutable=1"
    if _logs_ahead(path) and not _has_side_files(path):
        return _checked(at_rest)
    try:
        return _checked(f"file:{place}?mode=ro")
    except sqlite3.OperationalError:
        # A folder that cannot be written has no place for the index of the log; without a log none is needed.
        if _side_file(path, "-wal").exists() and _side_file(path, "-wal").stat().st_size:
            raise
        return _checked(at_rest)


def _logs_ahead(path: Path) -> bool:
    """Whether the header says that changes go to a write-ahead log first."""
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"


def _has_side_files(path: Path) -> bool:
    log = _side_file(path, "-wal")
    return _side_file(path, "-shm").exists() or (log.exists() and log.stat().st_size > 0)


def _side_file(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _checked(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=5.0)
    try:
        connection.text_factory = bytes
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_LIMIT)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        # One snapshot for all tables, whatever is written meanwhile.
        connection.execute("BEGIN")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


class Tables:
    """The plain tables of an open database. A view is never run: it may be anything."""

    def __init__(self, path: Path, connection: sqlite3.Connection, unreadable: UnreadableParts) -> None:
        self._path = path
        self._connection = connection
        self._unreadable = unreadable

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a plain table; empty when there is none of that name."""
        kind = self._connection.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
        if kind is None or not kind[0] or kind[0][:20].upper().startswith(b"CREATE VIRTUAL"):
            return frozenset()
        return frozenset(
            row[1].decode("utf-8", "replace")
            for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
        )

    # Any: SQLite holds any type in any column.
    def rows(
        self, table: str, columns: Sequence[str], *, where: str = "", order: str = "rowid", values: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Some columns of a table, null where it lacks one; text is bytes. None at all when the table is missing."""
        held = self.columns(table)
        if not held:
            self._unreadable.add(self._path.name, f"no table {table}")
            return
        chosen = ", ".join(_quoted(name) if name in held else "NULL" for name in columns)
        condition = f" WHERE {where}" if where else ""
        yield from self._connection.execute(
            f"SELECT {chosen} FROM {_quoted(table)}{condition} ORDER BY {order}", tuple(values)
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
