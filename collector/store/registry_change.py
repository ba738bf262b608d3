"""One change of the registry: a write transaction that cannot end without its audit row."""

import sqlite3
import time
from collections.abc import Mapping

import msgspec

from collector.errors import UserError
from collector.records import AuditAction
from collector.store.registry_rows import read_revision


class Change:
    """An open write transaction and the time it is recorded at."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        self.connection = connection
        self.at_us = time.time_ns() // 1_000
        """Microseconds since 1970, UTC."""

    def record(
        self,
        action: AuditAction,
        actor: str,
        reason: str,
        *,
        tenant: str | None = None,
        adapter: str | None = None,
        version: int | None = None,
        detail: Mapping[str, object] | None = None,
    ) -> int:
        """Writes the audit row; returns the new revision, which is its key."""
        if not actor.strip() or not reason.strip():
            raise UserError(f"{action}: actor is {actor!r} and reason {reason!r}; say who changes the registry and why")
        revision = read_revision(self.connection) + 1
        text = None if detail is None else msgspec.json.encode(detail).decode()
        self.connection.execute(
            "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (revision, self.at_us, actor, reason, action, tenant, adapter, version, text),
        )
        return revision
