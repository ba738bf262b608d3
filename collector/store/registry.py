"""The registry: adapters, their versions, tenants' routes, and who changed what, shared by every process."""

import sqlite3
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from collector.errors import StoreError, UserError
from collector.records import Adapter, Audit, Decision, Route, Version, VersionState
from collector.store.adapter_names import checked_name, engine_name
from collector.store.registry_change import Change
from collector.store.registry_rows import RegistrySnapshot, read_revision, read_rows, read_snapshot
from collector.store.registry_rules import (
    RegistryConflict,
    check_folder,
    check_routable,
    check_routes,
    check_sha256,
    check_transition,
    check_unrouted,
)
from collector.store.registry_schema import FILE_NAME, open_registry

READER_STALE_S = 10.0
"""A reader that has said nothing for so long is dead, and waited for no more; a living one renews what it said."""


class Acknowledgement(NamedTuple):
    """How far a reader of the registry has come."""

    reader: str
    """The reader, such as a collector's writer name."""
    revision: int
    """It acts on everything up to this revision."""
    at: datetime
    """When it said so."""


class Registry:
    """registry.sqlite of one store, for reading and changing. Usable from several threads."""

    def __init__(self, store: Path) -> None:
        self._path = store / FILE_NAME
        self._store = store
        self._lock = threading.RLock()
        self._together: Change | None = None
        self._connection = open_registry(store)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> "Registry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def revision(self) -> int:
        """Number of changes ever made; cheap enough to poll many times a second."""
        with self._reading() as connection:
            return read_revision(connection)

    def snapshot(self) -> RegistrySnapshot:
        """Everything but the audit, as of one revision."""
        with self._reading() as connection:
            return read_snapshot(connection)

    @contextmanager
    def together(self) -> Generator[None]:
        """What is read and changed inside is one transaction: all of it happens or none, and nobody comes between."""
        with self._transaction():
            assert self._together is None, "together() is not nested"
            try:
                self._together = Change(self._connection)
                yield
            finally:
                self._together = None

    def last_change(self, adapter: str) -> Audit | None:
        """The newest change of an adapter's states, of its tenant's routes, or decision about it."""
        with self._reading() as connection:
            owners = read_rows(connection, Adapter, adapter=adapter)
            rows = read_rows(connection, Audit, adapter=adapter)
            if owners:
                rows += read_rows(connection, Audit, tenant=owners[0].tenant, action="replace_routes")
        bearing = [row for row in rows if row.action not in ("register_version", "record_gate")]
        return max(bearing, key=lambda row: row.revision, default=None)

    def record_decision(
        self,
        adapter: str,
        decision: Decision,
        *,
        version: int | None = None,
        detail: Mapping[str, object] | None = None,
        actor: str,
        reason: str,
    ) -> int:
        """Writes down what was decided about an adapter, or one of its versions; returns the revision."""
        with self._changing() as change:
            if version is None:
                self._versions(change.connection, adapter)
            else:
                self._version(change.connection, adapter, version)
            return change.record(decision, actor, reason, adapter=adapter, version=version, detail=detail)

    def register_adapter(self, adapter: str, *, tenant: str, base_model: str, actor: str, reason: str) -> Adapter:
        """Adds a LoRA line, with the base model as its live version 0."""
        checked_name(adapter, "adapter")
        checked_name(tenant, "tenant")
        with self._changing() as change:
            if read_rows(change.connection, Adapter, adapter=adapter):
                raise RegistryConflict(f"{self._path}: adapter {adapter} is registered already; choose another name")
            change.connection.execute(
                "INSERT INTO adapters VALUES (?, ?, ?, ?)", (adapter, tenant, base_model, change.at_us)
            )
            change.connection.execute(
                "INSERT INTO versions VALUES (?, 0, 'live', NULL, 0, NULL, NULL, '[]', NULL, ?, ?)",
                (adapter, change.at_us, change.at_us),
            )
            change.record("register_adapter", actor, reason, tenant=tenant, adapter=adapter, version=0)
            return read_rows(change.connection, Adapter, adapter=adapter)[0]

    def register_version(
        self,
        adapter: str,
        version: int,
        *,
        parent: int,
        optimizer_step: int,
        folder: str,
        sha256: str,
        trained_on: Sequence[tuple[str, int, int]],
        actor: str,
        reason: str,
    ) -> Version:
        """Adds the next version of an adapter as a candidate; `folder` is relative to the store and must exist."""
        check_folder(self._store, folder)
        check_sha256(sha256)
        with self._changing() as change:
            known = self._versions(change.connection, adapter)
            if version != len(known):
                raise RegistryConflict(
                    f"{self._path}: {adapter} has {len(known)} versions, so the next is {len(known)}, not {version}; "
                    "read the registry again"
                )
            if not 0 <= parent < version:
                raise UserError(f"{engine_name(adapter, version)}: parent is {parent}, expected 0 to {version - 1}")
            if any(known_version.folder == folder for known_version in known):
                raise RegistryConflict(f"{self._path}: {folder} belongs to another version; use a new folder")
            ranges = msgspec.json.encode(trained_on).decode()
            change.connection.execute(
                "INSERT INTO versions VALUES (?, ?, 'candidate', ?, ?, ?, ?, ?, NULL, ?, ?)",
                (adapter, version, parent, optimizer_step, folder, sha256, ranges, change.at_us, change.at_us),
            )
            change.record("register_version", actor, reason, adapter=adapter, version=version)
            return self._version(change.connection, adapter, version)

    def record_gate(
        self, adapter: str, version: int, report: Mapping[str, object], *, actor: str, reason: str
    ) -> Version:
        """Stores the gate's report on a version that is not served yet; a later report replaces an earlier one."""
        with self._changing() as change:
            found = self._version(change.connection, adapter, version)
            if found.state not in ("candidate", "canary"):
                raise RegistryConflict(
                    f"{self._path}: {engine_name(adapter, version)} is {found.state}, and only a candidate or canary "
                    "can be given a gate report"
                )
            text = msgspec.json.encode(report).decode()
            change.connection.execute(
                "UPDATE versions SET gate = ? WHERE adapter = ? AND version = ?", (text, adapter, version)
            )
            change.record("record_gate", actor, reason, adapter=adapter, version=version, detail={"gate": report})
            return self._version(change.connection, adapter, version)

    def change_state(
        self, adapter: str, version: int, *, expected: VersionState, to: VersionState, actor: str, reason: str
    ) -> Version:
        """Moves a version from the state it is expected in to another one."""
        check_transition(engine_name(adapter, version), expected, to)
        with self._changing() as change:
            found = self._version(change.connection, adapter, version)
            if found.state != expected:
                raise RegistryConflict(
                    f"{self._path}: {engine_name(adapter, version)} is {found.state}, expected {expected}; "
                    "read the registry again"
                )
            if to in ("rejected", "retired"):
                check_unrouted(self._path, change.connection, adapter, version)
            change.connection.execute(
                "UPDATE versions SET state = ?, changed_at = ? WHERE adapter = ? AND version = ?",
                (to, change.at_us, adapter, version),
            )
            detail = {"from": expected, "to": to}
            change.record("change_state", actor, reason, adapter=adapter, version=version, detail=detail)
            return self._version(change.connection, adapter, version)

    def replace_routes(
        self, tenant: str, routes: Sequence[Route], *, expected_revision: int, actor: str, reason: str
    ) -> int:
        """Replaces all routes of a tenant at once; returns the revision that did it.

        `expected_revision` is the one at which the caller saw the tenant's routes change last, 0 if never:
        `snapshot().route_revisions`.
        """
        checked_name(tenant, "tenant")
        check_routes(tenant, routes)
        with self._changing() as change:
            before = read_snapshot(change.connection)
            found = before.route_revisions.get(tenant, 0)
            if found != expected_revision:
                raise RegistryConflict(
                    f"{self._path}: the routes of {tenant} changed at revision {found}, expected "
                    f"{expected_revision}; read the registry again"
                )
            for route in routes:
                check_routable(self._path, before, route)
            change.connection.execute("DELETE FROM routes WHERE tenant = ?", (tenant,))
            change.connection.executemany(
                "INSERT INTO routes (tenant, adapter, version, weight, position) VALUES (?, ?, ?, ?, ?)",
                [(tenant, route.adapter, route.version, route.weight, n) for n, route in enumerate(routes)],
            )
            detail = {"from": [route for route in before.routes if route.tenant == tenant], "to": list(routes)}
            return change.record("replace_routes", actor, reason, tenant=tenant, detail=detail)

    def acknowledge(self, reader: str, revision: int) -> None:
        """Says that `reader` acts on everything up to `revision`, and lives; its first call joins it to those waited
        for."""
        checked_name(reader, "reader")
        with self._changing() as change:
            newest = read_revision(change.connection)
            if not 0 <= revision <= newest:
                raise UserError(f"{self._path}: {reader} acknowledged revision {revision}, but the newest is {newest}")
            change.connection.execute(
                "INSERT INTO readers VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
                "SET revision = max(revision, excluded.revision), at = excluded.at",
                (reader, revision, change.at_us),
            )

    def leave(self, reader: str) -> None:
        """Stops waiting for `reader`: it shut down, or was found dead."""
        with self._changing() as change:
            change.connection.execute("DELETE FROM readers WHERE reader = ?", (reader,))

    def behind(self, revision: int) -> list[Acknowledgement]:
        """The joined readers that live and have not acknowledged `revision`."""
        oldest = int((time.time() - READER_STALE_S) * 1e6)
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT reader, revision, at FROM readers WHERE revision < ? AND at >= ? ORDER BY reader",
                (revision, oldest),
            ).fetchall()
        return [Acknowledgement(reader, seen, datetime.fromtimestamp(at / 1e6, UTC)) for reader, seen, at in rows]

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            if self._together is not None:
                yield self._connection
                return
        with self._transaction():
            self._connection.execute("BEGIN")
            yield self._connection

    @contextmanager
    def _changing(self) -> Generator[Change]:
        with self._lock:
            if self._together is not None:
                yield self._together
                return
        with self._transaction():
            yield Change(self._connection)

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._lock:
            try:
                yield
                self._connection.execute("COMMIT")
            except (sqlite3.Error, OverflowError) as error:
                raise StoreError(f"{self._path}: {error}; check that its disk is not full or read-only") from error
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _versions(self, connection: sqlite3.Connection, adapter: str) -> list[Version]:
        versions = read_rows(connection, Version, adapter=adapter)
        if not versions:
            raise UserError(f"{self._path}: no adapter {adapter!r}; register it first")
        return versions

    def _version(self, connection: sqlite3.Connection, adapter: str, version: int) -> Version:
        versions = self._versions(connection, adapter)
        if not 0 <= version < len(versions):
            raise UserError(f"{self._path}: {adapter} has versions 0 to {len(versions) - 1}, not {version}")
        return versions[version]
