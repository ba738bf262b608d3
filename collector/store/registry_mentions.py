"""Names of erased sessions and turns in the registry: gate reports, and the reasons and details of the audit."""

import sqlite3
import time
from pathlib import Path

from collector.errors import StoreError
from collector.store.mentions import Mentions
from collector.store.registry_schema import FILE_NAME, open_registry

_READER_WAIT_S = 10.0
# Nothing else may change an audit row, so the file's own guard is taken away and put back within the transaction.
_GUARD = "audit_fixed"


def forget_in_registry(store: Path, mentions: Mentions) -> int:
    """Takes the names out of the registry and leaves no byte of them in its file; returns out of how many rows."""
    if not (store / FILE_NAME).exists():
        return 0
    connection = open_registry(store)
    try:
        changed = _rewrite(connection, mentions)
        if changed:
            _scrub(connection, store / FILE_NAME)
    except sqlite3.Error as error:
        path = store / FILE_NAME
        raise StoreError(f"{path}: cannot be changed ({error}); run forget again when it can") from error
    finally:
        connection.close()
    return changed


def _rewrite(connection: sqlite3.Connection, mentions: Mentions) -> int:
    connection.execute("BEGIN IMMEDIATE")
    try:
        (guard,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (_GUARD,)).fetchone()
        connection.execute(f"DROP TRIGGER {_GUARD}")
        changed = _rewrite_audit(connection, mentions) + _rewrite_gates(connection, mentions)
        connection.execute(guard)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return changed


def _rewrite_audit(connection: sqlite3.Connection, mentions: Mentions) -> int:
    rows = connection.execute("SELECT revision, reason, detail FROM audit").fetchall()
    without = [(mentions.in_text(reason), _in_json(mentions, detail), revision) for revision, reason, detail in rows]
    changed = [after for after, (_, reason, detail) in zip(without, rows, strict=True) if after[:2] != (reason, detail)]
    connection.executemany("UPDATE audit SET reason = ?, detail = ? WHERE revision = ?", changed)
    return len(changed)


def _rewrite_gates(connection: sqlite3.Connection, mentions: Mentions) -> int:
    rows = connection.execute("SELECT adapter, version, gate FROM versions WHERE gate IS NOT NULL").fetchall()
    without = [(_in_json(mentions, gate), adapter, version) for adapter, version, gate in rows]
    changed = [after for after, (_, _, gate) in zip(without, rows, strict=True) if after[0] != gate]
    connection.executemany("UPDATE versions SET gate = ? WHERE adapter = ? AND version = ?", changed)
    return len(changed)


def _in_json(mentions: Mentions, text: str | None) -> str | None:
    return None if text is None else mentions.in_json(text.encode()).decode()


def _scrub(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("VACUUM")
    deadline = time.monotonic() + _READER_WAIT_S
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0:
        if time.monotonic() > deadline:
            raise StoreError(
                f"{path}: a reader still holds the write-ahead log, expected it to end; "
                "the names are out of the rows, run forget again to clear the log"
            )
        time.sleep(0.05)
