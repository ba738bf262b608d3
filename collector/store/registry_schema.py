"""The tables of registry.sqlite and how the file is opened."""

import sqlite3
import time
from pathlib import Path

from collector.errors import StoreError

FILE_NAME = "registry.sqlite"
"""The registry's name inside a store."""
SCHEMA_VERSION = 1
"""Layout of the file, kept in SQLite's user_version."""
BUSY_TIMEOUT_S = 10.0
"""Longest a change waits for another process's change."""

# Facts of an adapter, a version and an audit row never change, so the file itself refuses to change them.
# The revision is the key of the newest audit row: no change can be made without one.
# Keys come first in a table without rowid: SQLite 3.40's quick_check else finds NULL where there is none.
_SCHEMA = """
CREATE TABLE adapters (
  adapter TEXT PRIMARY KEY, tenant TEXT NOT NULL, base_model TEXT NOT NULL, created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE versions (
  adapter TEXT NOT NULL REFERENCES adapters, version INTEGER NOT NULL CHECK (version >= 0),
  state TEXT NOT NULL CHECK (state IN ('candidate', 'canary', 'live', 'rejected', 'retired')),
  parent INTEGER CHECK (parent < version), optimizer_step INTEGER CHECK (optimizer_step >= 0),
  folder TEXT UNIQUE, sha256 TEXT, trained_on TEXT NOT NULL, gate TEXT,
  created_at INTEGER NOT NULL, changed_at INTEGER NOT NULL,
  PRIMARY KEY (adapter, version), FOREIGN KEY (adapter, parent) REFERENCES versions (adapter, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE routes (
  tenant TEXT NOT NULL, position INTEGER NOT NULL, adapter TEXT, version INTEGER NOT NULL,
  weight REAL NOT NULL CHECK (weight > 0), PRIMARY KEY (tenant, position),
  FOREIGN KEY (adapter, version) REFERENCES versions (adapter, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
  revision INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor TEXT NOT NULL, reason TEXT NOT NULL, action TEXT NOT NULL,
  tenant TEXT, adapter TEXT, version INTEGER, detail TEXT
) STRICT;
CREATE INDEX audit_routes ON audit (tenant, revision) WHERE action = 'replace_routes';
CREATE TABLE readers (reader TEXT PRIMARY KEY, revision INTEGER NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER adapters_kept BEFORE DELETE ON adapters BEGIN SELECT RAISE(ABORT, 'adapters are kept'); END;
CREATE TRIGGER adapters_fixed BEFORE UPDATE ON adapters BEGIN SELECT RAISE(ABORT, 'adapters are immutable'); END;
CREATE TRIGGER versions_kept BEFORE DELETE ON versions BEGIN SELECT RAISE(ABORT, 'versions are kept'); END;
CREATE TRIGGER versions_fixed
BEFORE UPDATE OF adapter, version, parent, optimizer_step, folder, sha256, trained_on, created_at ON versions
BEGIN SELECT RAISE(ABORT, 'a version is immutable but for its state and gate report'); END;
CREATE TRIGGER versions_dense BEFORE INSERT ON versions
WHEN NEW.version <> (SELECT count(*) FROM versions WHERE adapter = NEW.adapter)
BEGIN SELECT RAISE(ABORT, 'versions are dense'); END;
CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows are kept'); END;
CREATE TRIGGER audit_fixed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows are immutable'); END;
"""


def open_registry(store: Path) -> sqlite3.Connection:
    """A connection for reading and changing the registry of `store`, which is made if missing."""
    path = store / FILE_NAME
    try:
        store.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: cannot be opened ({error}); check the folder, its disk and its rights") from error
    try:
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"{path}: cannot be changed ({error}); check the folder, its disk and its rights") from error
    except StoreError:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _enter_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if has_tables(connection, path):
        return
    connection.execute("BEGIN IMMEDIATE")
    if not has_tables(connection, path):
        for statement in _statements(_SCHEMA):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _enter_wal(connection: sqlite3.Connection) -> None:
    # Changing the journal mode does not wait for the busy timeout, so the first openers of a new file may collide.
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _statements(script: str) -> list[str]:
    statements: list[str] = []
    pending = ""
    for line in script.strip().splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file has its tables yet; a registry of another layout is refused."""
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found not in (0, SCHEMA_VERSION):
        raise StoreError(
            f"{path}: schema version {found}, expected {SCHEMA_VERSION}; open it with the release that wrote it"
        )
    return found == SCHEMA_VERSION
