"""The registry's rows as records, read in one transaction; never makes or changes a file."""

import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from collector.errors import StoreError
from collector.records import REGISTRY_TABLES, Adapter, Audit, Decision, Record, Route, Version
from collector.store.registry_schema import FILE_NAME, has_tables

R = TypeVar("R", bound=Record)
_TIMES = ("at", "created_at", "changed_at")
_JSON = ("trained_on", "gate", "detail")
_ORDER = {"adapters": "adapter", "versions": "adapter, version", "routes": "tenant, position", "audit": "revision"}


class RegistrySnapshot(NamedTuple):
    """The registry as of one revision."""

    revision: int
    """Number of changes ever made; 0 when there is no registry yet."""
    adapters: tuple[Adapter, ...]
    """By name."""
    versions: tuple[Version, ...]
    """By adapter and version."""
    routes: tuple[Route, ...]
    """By tenant, in the order they were given."""
    route_revisions: Mapping[str, int]
    """Tenant to the revision at which its routes changed last; absent if they never did."""
    decisions: tuple[Audit, ...] = ()
    """What was decided about adapters (`collector.records.Decision`), oldest first."""

    @property
    def held(self) -> Mapping[str, Audit]:
        """Adapter to the hold it is under: nothing is promoted by itself until it is released."""
        newest = {row.adapter: row for row in self.decisions if row.action in ("hold", "release")}
        return {name: row for name, row in newest.items() if name is not None and row.action == "hold"}

    @property
    def pinned(self) -> Mapping[str, int]:
        """Adapter to the version that a person named as its best; absent where nobody did."""
        newest = {row.adapter: row.version for row in self.decisions if row.action == "pin"}
        return {name: version for name, version in newest.items() if name is not None and version is not None}


def read_revision(connection: sqlite3.Connection) -> int:
    """Number of changes ever made."""
    return connection.execute("SELECT coalesce(max(revision), 0) FROM audit").fetchone()[0]


def read_snapshot(connection: sqlite3.Connection) -> RegistrySnapshot:
    """Adapters, versions, routes and decisions; consistent when the caller holds a transaction."""
    changed = "SELECT tenant, max(revision) FROM audit WHERE action = 'replace_routes' GROUP BY tenant"
    return RegistrySnapshot(
        revision=read_revision(connection),
        adapters=tuple(read_rows(connection, Adapter)),
        versions=tuple(read_rows(connection, Version)),
        routes=tuple(read_rows(connection, Route)),
        route_revisions=dict(connection.execute(changed).fetchall()),
        decisions=tuple(_decisions(connection)),
    )


def _decisions(connection: sqlite3.Connection) -> list[Audit]:
    rows = [row for action in get_args(Decision) for row in read_rows(connection, Audit, action=action)]
    return sorted(rows, key=lambda row: row.revision)


def read_rows(connection: sqlite3.Connection, record: type[R], **equal: object) -> list[R]:
    """Rows of a registry table whose columns equal the values given, in the table's order."""
    table = next(name for name, kind in REGISTRY_TABLES.items() if kind is record)
    columns = record.__struct_fields__
    where = " AND ".join(f"{name} = ?" for name in equal) or "true"
    rows = connection.execute(
        f"SELECT {', '.join(columns)} FROM {table} WHERE {where} ORDER BY {_ORDER[table]}", tuple(equal.values())
    )
    return [_record(table, dict(zip(columns, row, strict=True)), record) for row in rows]


# Any: SQLite's values before they are checked against the record.
def _record(table: str, row: dict[str, Any], record: type[R]) -> R:
    named = ", ".join(f"{name} {row[name]!r}" for name in _ORDER[table].split(", ") if name in row)
    try:
        return msgspec.convert(_decoded(row), record)
    # Beside what is no record: a time that no calendar has, and text that is no UTF-8.
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, OSError, RecursionError) as error:
        raise StoreError(
            f"{FILE_NAME}: the row of {table} with {named} cannot be read ({error}); expected it as it was written; "
            "correct the row or restore the file from a copy"
        ) from error


# Any: SQLite's values before they are checked against the record.
def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    for name in _TIMES:
        if name in row:
            row[name] = datetime.fromtimestamp(row[name] // 1_000_000, UTC).replace(microsecond=row[name] % 1_000_000)
    for name in _JSON:
        if row.get(name) is not None:
            row[name] = msgspec.json.decode(row[name])
    return row


def read_registry(store: Path) -> RegistrySnapshot:
    """The registry of a store that this process may not be able to write."""
    with open_read_only(store) as connection:
        return RegistrySnapshot(0, (), (), (), {}) if connection is None else read_snapshot(connection)


def read_audit(store: Path) -> list[Audit]:
    """Every change of a store's registry, oldest first."""
    with open_read_only(store) as connection:
        return [] if connection is None else read_rows(connection, Audit)


@contextmanager
def open_read_only(store: Path) -> Generator[sqlite3.Connection | None]:
    """A transaction that only reads the registry of a store; None when it has none."""
    path = store / FILE_NAME
    if not path.exists():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="roundhouse-registry-") as scratch:
        try:
            connection = _open(path, Path(scratch))
            try:
                yield connection if has_tables(connection, path) else None
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise StoreError(f"{path}: cannot be read ({error}); restore it from a copy") from error


def _open(path: Path, scratch: Path) -> sqlite3.Connection:
    try:
        return _pinned(path)
    except sqlite3.OperationalError:
        if path.with_name(path.name + "-shm").exists():
            raise
    # A folder that cannot be written, with no process writing: SQLite cannot read the write-ahead log in place.
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copyfile(source, scratch / source.name)
    return _pinned(scratch / path.name)


def _pinned(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=10.0)
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
