"""A store as a log in which single sessions are found without reading the others."""

# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false
# (pyarrow carries no types)

import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from checks.log import Batch, Log, Source, Unreadable
from checks.readers.native_log import NativeLog
from checks.readers.native_store import StoreTables
from checks.readers.tables import Origin
from collector.records import TABLES
from collector.store.reader import Reader
from collector.store.snapshot import Snapshot
from console.watch.source.store_stamp import StoreStamp, store_stamp

MOST_SESSIONS = 64
"""More sessions than this are read by going through all."""


class SessionLog:
    """Usable from several threads, one at a time; what it read of a store is read anew when the store was touched."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._stamp: StoreStamp | None = None
        self._snapshot: Snapshot | None = None
        self._whole: NativeLog | None = None

    def batches(
        self, columns: Sequence[str], score_columns: Sequence[str] = (), *, sessions: Collection[str] | None = None
    ) -> Iterator[Batch]:
        """The turns, or those of some sessions."""
        with self._lock:
            self._renew()
            if sessions is None or len(sessions) > MOST_SESSIONS:
                yield from self._all().batches(columns, score_columns, sessions=sessions)
                return
            if self._snapshot is None:
                self._snapshot = Reader(self._store).snapshot(["turns", "scores"])
            log = NativeLog(_SessionTables(self._store, self._snapshot, sessions))
            yield from log.batches(columns, score_columns, sessions=sessions)

    def table(self, name: str) -> pl.DataFrame:
        """A small table, whole."""
        with self._lock:
            return self._all().table(name)

    def source(self) -> Source:
        """The store."""
        with self._lock:
            return self._all().source()

    def turns_expected(self) -> int | None:
        """As the store knows it."""
        with self._lock:
            return self._all().turns_expected()

    def advice(self, column: str) -> str | None:
        """Where the column belongs."""
        with self._lock:
            return self._all().advice(column)

    def _renew(self) -> None:
        stamp = store_stamp(self._store)
        if self._stamp is None or stamp.touched(self._stamp):
            if self._snapshot is not None:
                self._snapshot.close()
            self._snapshot = self._whole = None
        self._stamp = stamp

    def _all(self) -> Log:
        if self._whole is None:
            self._whole = NativeLog(StoreTables(self._store))
        return self._whole


class _SessionTables:
    """The turns of some sessions, and the scores of these turns."""

    def __init__(self, store: Path, snapshot: Snapshot, sessions: Collection[str]) -> None:
        self._store = store
        self._snapshot = snapshot
        self._sessions = [*sessions]
        self._turn_ids: list[str] | None = None

    @property
    def origin(self) -> Origin:
        """The store."""
        return Origin(str(self._store), f"{len(self._sessions)} sessions of a store", 0)

    def columns(self, table: str) -> Sequence[str]:
        """Those of the record, and the keys."""
        return self._snapshot.schema(table).names if table in TABLES else ()

    def batches(
        self, table: str, columns: Sequence[str], *, sessions: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Session by session, prompts rebuilt."""
        del sessions
        if table == "turns":
            for session in self._sessions:
                yield from self._snapshot.batches("turns", columns=columns, session_id=session)
            return
        assert table == "scores", table
        for turn_id in self._turns():
            yield from self._snapshot.batches("scores", columns=columns, turn_id=turn_id)

    def rows(self, table: str) -> int | None:
        """Not counted."""
        del table
        return None

    def unreadable(self) -> Sequence[Unreadable]:
        """The damage that the snapshot knows of, of the whole store."""
        return [Unreadable(place=str(self._store), reason=line) for line in dict.fromkeys(self._snapshot.damage)]

    def _turns(self) -> list[str]:
        if self._turn_ids is None:
            batches = [*self.batches("turns", ["turn_id"])]
            self._turn_ids = [turn_id for batch in batches for turn_id in batch["turn_id"].to_pylist()]
        return self._turn_ids
