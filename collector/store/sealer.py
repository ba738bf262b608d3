"""The thread that seals hot rows into segments and removes replaced files after their grace period."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

import pyarrow as pa

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.records import TABLES
from collector.store import codec
from collector.store.codec import StoredRow
from collector.store.compaction import merge, mergeable
from collector.store.journal import Journal, Loss, now_text, open_for_reading, read_segments, stored_row
from collector.store.layout import Layout, fsync_folder
from collector.store.segments import Hook, no_hook, write_durably, write_segment

Submit = Callable[[Callable[[Journal], None]], "Future[None]"]
"""Runs a function with the journal in the writer's thread."""

_WAKE_S = 0.5
_RETRY_S = 2.0
_ROWS_A_STRETCH = 128
_REST_S = 0.0005


class HotCount:
    """Rows, bytes and age of one table's hot rows, as far as the writer knows."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows = rows
        self.size = size
        self.since = time.monotonic()

    def add(self, rows: Sequence[StoredRow]) -> None:
        """Counts committed rows."""
        if not self.rows:
            self.since = time.monotonic()
        self.rows += len(rows)
        self.size += sum(len(row.body) for row in rows)

    def remove(self, rows: int, size: int) -> None:
        """Counts sealed rows; what is left is as old as the sealing."""
        self.rows -= rows
        self.size -= size
        self.since = time.monotonic()


class Sealer:
    """Seals one writer's tables when they are many rows, many bytes or old enough."""

    def __init__(
        self, layout: Layout, writer: str, config: StoreConfig, hot: dict[str, HotCount], submit: Submit, hook: Hook
    ) -> None:
        self._layout = layout
        self._writer = writer
        self._config = config
        self._hot = hot
        self._submit = submit
        self._hook = hook
        self._wake = threading.Condition()
        self._stopping = False
        self._one_at_a_time = threading.Lock()
        self._sealed = True
        self._retired = True
        self.failure: str | None = None
        """Why sealing fails now; hot rows stay readable meanwhile."""
        self._thread = threading.Thread(target=self._run, name=f"sealer-{writer}", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        """Lets the thread look at once."""
        with self._wake:
            self._wake.notify()

    def look_for_retired(self) -> None:
        """Lets replaced files be removed when their grace is over."""
        self._retired = True

    def stop(self) -> None:
        """Ends the thread after the segment at hand."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def due(self, table: str) -> bool:
        """Whether a table's hot rows are many, large or old enough to seal."""
        hot = self._hot[table]
        return hot.rows > 0 and (
            hot.rows >= self._config.seal_rows
            or hot.size >= self._config.seal_bytes
            or time.monotonic() - hot.since >= self._config.seal_interval_s
        )

    def seal_all(self) -> None:
        """Seals every hot row there is now."""
        for table in TABLES:
            while self.seal_once(table):
                pass

    def seal_once(self, table: str) -> bool:
        """Seals the oldest hot rows of a table into one segment; False when there were none."""
        with self._one_at_a_time:
            rows = self._oldest(table)
            if not rows:
                return False
            self._seal(table, rows)
            return True

    def paused(self) -> threading.Lock:
        """A lock: while it is held, nothing is sealed, merged or removed."""
        return self._one_at_a_time

    def _run(self) -> None:
        while not self._stopping:
            with self._wake:
                self._wake.wait(self._pause_s())
            try:
                for table in TABLES:
                    if self.due(table):
                        self.seal_once(table)
                with self._one_at_a_time:
                    if self._sealed:
                        self._compact()
                    if self._retired:
                        self._remove_retired()
                self.failure = None
            except (OSError, sqlite3.Error, pa.ArrowException, StoreError) as error:
                self.failure = f"{self._layout.segments}: {error}; it is tried again, hot rows stay in the journal"

    def _pause_s(self) -> float:
        if self.failure is not None:
            return _RETRY_S
        return 0.0 if any(map(self.due, TABLES)) else min(_WAKE_S, self._config.seal_interval_s)

    def _oldest(self, table: str) -> list[StoredRow]:
        db = open_for_reading(self._layout.journal(self._writer))
        try:
            sizes = db.execute(
                f"SELECT seq, length(body) FROM hot_{table} ORDER BY seq LIMIT ?", (self._config.seal_rows,)
            ).fetchall()
            held, upto = 0, 0
            for seq, size in sizes:
                held, upto = held + size, seq
                if held >= self._config.seal_bytes:
                    break
            query = f"SELECT seq, packed, crc32, body FROM hot_{table} WHERE seq <= ? ORDER BY seq"
            return [stored_row(row) for row in db.execute(query, (upto,))]
        finally:
            db.close()

    def _seal(self, table: str, rows: list[StoredRow]) -> None:
        parts: list[pa.Table] = []
        damaged: list[StoredRow] = []
        for start in range(0, len(rows), _ROWS_A_STRETCH):
            opened = [(row, codec.open_row(row)) for row in rows[start : start + _ROWS_A_STRETCH]]
            damaged += [row for row, values in opened if values is None]
            whole = [(row.seq, row.crc32, values) for row, values in opened if values is not None]
            parts.append(codec.to_arrow(table, self._writer, whole))
            # Threads that serve requests wait for the interpreter lock meanwhile.
            time.sleep(_REST_S)
        size = sum(len(row.body) for row in rows)
        arrow = pa.concat_tables(parts)
        segment = write_segment(self._layout, table, arrow, self._writer, 0, self._hook) if arrow.num_rows else None
        losses = self._set_aside(damaged)

        def catalogue(journal: Journal) -> None:
            journal.catalogue(table, rows[-1].seq, segment, losses)
            self._hot[table].remove(len(rows), size)

        self._submit(catalogue).result()
        self._sealed = True
        self._hook("catalogued")

    def _set_aside(self, damaged: list[StoredRow]) -> list[Loss]:
        """Keeps the bytes of rows that fail their crc32, and notes them as lost."""
        if not damaged:
            return []
        folder = self._layout.new_quarantine(self._writer)
        for row in damaged:
            write_durably(folder / f"{row.seq}.body", row.body, no_hook)
        found = f"journals/{self._writer}.sqlite: a record failed its crc32 when it was to be sealed"
        return [Loss(row.seq, row.seq, found, f"quarantine/{folder.name}", now_text(), 0) for row in damaged]

    def _compact(self) -> None:
        db = open_for_reading(self._layout.journal(self._writer))
        try:
            segments = read_segments(db)
        finally:
            db.close()
        for table in TABLES:
            old = mergeable([segment for segment in segments if segment.tbl == table], self._config)
            if old:
                new = merge(self._layout, self._writer, old, self._hook)
                self._submit(partial(Journal.replace, old=old, new=new, retired_at=time.time())).result()
                self._retired = True
                self._hook("replaced")
        self._sealed = False

    def _remove_retired(self) -> None:
        db = open_for_reading(self._layout.journal(self._writer))
        try:
            limit = time.time() - self._config.grace_s
            gone = db.execute("SELECT name, tbl FROM retired WHERE retired_at <= ?", (limit,)).fetchall()
            (self._retired,) = db.execute("SELECT count(*) > 0 FROM retired").fetchone()
        finally:
            db.close()
        if not gone:
            return
        for name, table in gone:
            (self._layout.table(table) / name).unlink(missing_ok=True)
        for table in {table for _, table in gone}:
            fsync_folder(self._layout.table(table))

        def forget(journal: Journal) -> None:
            with journal.transaction() as db:
                db.executemany("DELETE FROM retired WHERE name = ?", [(name,) for name, _ in gone])

        self._submit(forget).result()
