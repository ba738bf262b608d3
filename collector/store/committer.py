"""The thread that commits records in groups and answers when they are durable."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import pyarrow as pa

from collector.config import StoreConfig
from collector.errors import RecordRefused, StoreError
from collector.records import Record, Turn
from collector.store.codec import TABLE_OF, UNSTORABLE, StoredRow, plain_values, seal_row
from collector.store.delta import PrefixCache
from collector.store.journal import Journal
from collector.store.sealer import HotCount
from collector.store.segments import Hook
from collector.store.startup import Opened

_PROBE_S = 1.0
_CHECKPOINT_BYTES = 16 * 2**20


class Ack(NamedTuple):
    """A durable record's place: whose journal and which seq."""

    writer: str
    seq: int


class _Append(NamedTuple):
    record: Record
    future: "Future[Ack]"


class _Task(NamedTuple):
    run: Callable[[Journal], None]
    future: "Future[None]"


class _Stop(NamedTuple):
    """The last job."""


class Committer:
    """Takes records and tasks from any thread and does them, in order, in its own."""

    def __init__(self, name: str, opened: Opened, config: StoreConfig, hook: Hook, on_due: Callable[[], None]) -> None:
        self._name = name
        self._journal = opened.journal
        self._mark = opened.mark
        self._config = config
        self._hook = hook
        self._on_due = on_due
        self._seq = self.durable_seq = opened.last_seq
        """The highest acknowledged seq."""
        self.failure: str | None = None
        """Why commits fail now."""
        self.failed_total = 0
        """Records refused since the start."""
        self.failed_checkpoints_total = 0
        """Times the write-ahead log could not be moved into the database; it grows meanwhile."""
        self.queued = 0
        """Records put and not yet answered."""
        self.room = threading.Condition()
        """Told when records were answered."""
        self.dead = False
        """Whether a fault of ours ended the thread."""
        self.prefixes = PrefixCache(config.prefix_cache_bytes)
        self.hot: dict[str, HotCount] = {}
        """Hot rows, as counted; by table."""
        self._uncertain = False
        self._unchecked_bytes = 0
        self._at_hand: list[_Append] = []
        self._jobs: SimpleQueue[_Append | _Task | _Stop] = SimpleQueue()
        self.count_hot()
        self._thread = threading.Thread(target=self._run, name=f"writer-{name}", daemon=True)
        self._thread.start()

    def put(self, record: Record, future: "Future[Ack]") -> None:
        """Queues a record; the caller holds `room`."""
        self.queued += 1
        self._jobs.put(_Append(record, future))

    def submit(self, run: Callable[[Journal], None]) -> "Future[None]":
        """Queues a task that works on the journal."""
        future: Future[None] = Future()
        self._jobs.put(_Task(run, future))
        if self.dead:
            self._answer_all()
        return future

    def stop(self) -> None:
        """Does what is queued and ends the thread."""
        self._jobs.put(_Stop())
        self._thread.join()

    def is_this_thread(self) -> bool:
        """Whether the caller runs in the committing thread, as callbacks do."""
        return threading.current_thread() is self._thread

    def count_hot(self) -> None:
        """Counts the hot rows anew."""
        for table, (rows, size) in self._journal.hot_state().items():
            self.hot[table] = HotCount(rows, size)

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Answers everything that waits; without this a fault of ours would leave callers waiting for ever."""
        self.failure = f"{self._journal.path}: the writer stopped on {error!r}; restart the process"
        self._refuse([job for job in self._at_hand if not job.future.done()], self.failure)
        self.dead = True
        self._answer_all()
        with self.room:
            self.room.notify_all()

    def _answer_all(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
            if isinstance(job, _Append):
                self._refuse([job], str(self.failure))
            elif isinstance(job, _Task):
                job.future.set_exception(StoreError(str(self.failure)))

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_PROBE_S if self.failure else None)
            except Empty:
                self._probe()
                continue
            while isinstance(job, _Append):
                batch, job = self._batch(job)
                self._commit(batch)
            if isinstance(job, _Task):
                self._perform(job)
            elif isinstance(job, _Stop):
                return

    def _batch(self, first: _Append) -> tuple[list[_Append], _Append | _Task | _Stop | None]:
        """Appends that stand in the queue, up to the group's size, and the job of another kind that ended it."""
        batch = [first]
        while len(batch) < self._config.group_commit_rows:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if not isinstance(job, _Append):
                return batch, job
            batch.append(job)
        return batch, None

    def _commit(self, batch: list[_Append]) -> None:
        self._at_hand = batch
        rows: dict[str, list[StoredRow]] = {}
        written: list[tuple[_Append, int]] = []
        if self._uncertain and not self._look_again():
            self._refuse(batch, str(self.failure))
            return
        seq = self._seq
        for job in batch:
            try:
                table, row = self._encode(job.record, seq + 1)
            except UNSTORABLE as error:
                if isinstance(job.record, Turn):
                    self.prefixes.drop(job.record.turn_id)
                name = type(job.record).__name__
                self._refuse([job], f"{name} cannot be stored: {error}; correct the record", RecordRefused)
                continue
            seq += 1
            rows.setdefault(table, []).append(row)
            written.append((job, seq))
        if not written:
            return
        try:
            self._journal.insert(rows)
            self._hook("committed")
            self._mark.write(seq)
        except (sqlite3.Error, OSError) as error:
            self._uncertain = True
            self.failure = self._cannot_commit(error)
            self._refuse([job for job, _ in written], self.failure)
            return
        self._seq = seq
        self._acknowledge(written, rows)

    def _look_again(self) -> bool:
        """After a commit that failed: reads what the journal holds, since a failed commit may yet be there."""
        self.prefixes.clear()
        try:
            self._seq = max(self.durable_seq, self._journal.last_seq())
            self.count_hot()
        except sqlite3.Error as error:
            self.failure = self._cannot_commit(error)
            return False
        self._uncertain = False
        return True

    def _acknowledge(self, written: list[tuple[_Append, int]], rows: dict[str, list[StoredRow]]) -> None:
        self.failure = None
        self.durable_seq = self._seq
        due = False
        for table, of_table in rows.items():
            self.hot[table].add(of_table)
            self._unchecked_bytes += sum(len(row.body) for row in of_table)
            due = due or self.hot[table].rows >= self._config.seal_rows
            due = due or self.hot[table].size >= self._config.seal_bytes
        self._release(len(written))
        for job, seq in written:
            job.future.set_result(Ack(self._name, seq))
        if due:
            self._on_due()
        if self._unchecked_bytes >= _CHECKPOINT_BYTES:
            self._checkpoint()

    def _checkpoint(self) -> None:
        try:
            self._journal.checkpoint()
        except sqlite3.Error:
            # The records are durable in the write-ahead log; a full disk shows itself at the next commit.
            self.failed_checkpoints_total += 1
            return
        self._unchecked_bytes = 0

    def _encode(self, record: Record, seq: int) -> tuple[str, StoredRow]:
        table = TABLE_OF[type(record)]
        values: Sequence[Any]
        values = self.prefixes.values(record, seq) if isinstance(record, Turn) else plain_values(record, table)
        return table, seal_row(table, seq, values)

    def _refuse(self, jobs: Sequence[_Append], reason: str, kind: type[StoreError] = StoreError) -> None:
        self.failed_total += len(jobs)
        self._release(len(jobs))
        for job in jobs:
            job.future.set_exception(kind(reason))

    def _release(self, count: int) -> None:
        with self.room:
            self.queued -= count
            self.room.notify_all()

    def _perform(self, task: _Task) -> None:
        try:
            task.run(self._journal)
        except (sqlite3.Error, OSError, pa.ArrowException, StoreError) as error:
            task.future.set_exception(error)
        else:
            task.future.set_result(None)

    def _probe(self) -> None:
        """Tries a durable write, so that a disk with room again is noticed before the next record."""
        try:
            with self._journal.transaction() as db:
                db.execute("INSERT OR REPLACE INTO meta VALUES ('probe', '')")
            self._mark.write(self.durable_seq)
        except (sqlite3.Error, OSError) as error:
            self.failure = self._cannot_commit(error)
        else:
            self.failure = None

    def _cannot_commit(self, error: Exception) -> str:
        return (
            f"{self._journal.path}: {error}; expected to write to it; make room or repair the disk, "
            f"it is tried again every second"
        )
