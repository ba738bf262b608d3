"""The one writer of a journal: records go in, an answer comes when they are durable."""

import asyncio
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.records import Event, Record
from collector.store.committer import Ack, Committer
from collector.store.erase import SCRUB_DUE, Erasure, erase, erase_records
from collector.store.journal import Journal
from collector.store.journal_beside import JournalBeside
from collector.store.layout import Layout, check_writer_name
from collector.store.sealer import Sealer
from collector.store.segments import Hook, no_hook
from collector.store.startup import open_store

_DEFAULTS = StoreConfig()
_PAGES_A_STEP = 64
"""Free pages given back between two commits: 1 MiB."""


class Writer:
    """Appends records to one journal. Opening locks it, repairs it, and refuses with one clear line."""

    def __init__(self, store: Path, name: str, config: StoreConfig = _DEFAULTS, *, hook: Hook = no_hook) -> None:
        self.name = check_writer_name(name)
        self._config = config
        self._hook = hook
        self._layout = Layout(store)
        self._closed = False
        self._opened = open_store(self._layout, name, hook)
        self._committer = Committer(name, self._opened, config, hook, on_due=lambda: self._sealer.nudge())
        self._sealer = Sealer(self._layout, name, config, self._committer.hot, self._committer.submit, hook)
        for line in self.repaired:
            self.append(Event(at=datetime.now(UTC), kind="quarantined", severity="fail", actor=name, text=line))

    def append(self, record: Record) -> "Future[Ack]":
        """Queues a record; the future resolves when it is durable and raises StoreError when it cannot be.

        With a full queue it waits for room, except in an event loop or a callback, where the future fails at once.
        """
        future: Future[Ack] = Future()
        future.set_running_or_notify_cancel()
        committer = self._committer
        with committer.room:
            if self._is_full() and not committer.is_this_thread() and not _in_event_loop():
                committer.room.wait_for(lambda: not self._is_full() or self._closed or committer.dead)
            refusal = self._refusal()
            if refusal is None:
                committer.put(record, future)
                return future
            committer.failed_total += 1
        future.set_exception(StoreError(refusal))
        return future

    def seal(self) -> None:
        """Seals every record appended so far; returns when that is durable."""
        self._committer.submit(lambda _: None).result()
        self._sealer.seal_all()

    def erase(self, erasure: Erasure) -> int:
        """Erases the sessions, what is about the turns and what the users said; returns how many records went."""
        count: list[int] = []

        def run(journal: Journal) -> None:
            self._committer.prefixes.clear()
            count.append(erase(self._layout, self.name, journal, erasure, self._hook))
            self._committer.count_hot()

        with self._sealer.paused():
            self._committer.submit(run).result()
        return count[0]

    def expire(self, erasure: Erasure) -> int:
        """Erases while records are taken and acknowledged: segments are rewritten in the calling thread, and replaced
        files stay for readers as long as any. Returns how many records went."""
        beside = JournalBeside(self._committer.submit)
        with self._sealer.paused():
            beside.do(lambda _: self._committer.prefixes.clear())
            beside.note(SCRUB_DUE, "1")
            count = erase_records(self._layout, self.name, beside, erasure, self._hook, keep_files=True)
            beside.do(lambda _: self._committer.count_hot())
            while beside.do(lambda journal: journal.shrink(_PAGES_A_STEP)):
                self._hook("shrunk")
            # A reader in the way leaves bytes in the log until the next time, or the next start.
            if beside.do(lambda journal: journal.checkpoint("TRUNCATE")):
                beside.note(SCRUB_DUE, None)
        self._sealer.look_for_retired()
        return count

    def close(self) -> None:
        """Commits what is queued, then lets go of the journal."""
        with self._committer.room:
            if self._closed:
                return
            self._closed = True
            self._committer.room.notify_all()
        self._sealer.stop()
        self._committer.stop()
        self._opened.close()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def repaired(self) -> list[str]:
        """What opening found damaged and set aside, one line each."""
        return self._opened.repaired

    @property
    def queued(self) -> int:
        """Records appended and not yet answered."""
        return self._committer.queued

    @property
    def failure(self) -> str | None:
        """Why commits fail now; None while they succeed."""
        return self._committer.failure

    @property
    def seal_failure(self) -> str | None:
        """Why sealing fails now; None while it succeeds."""
        return self._sealer.failure

    @property
    def durable_seq(self) -> int:
        """The highest acknowledged seq."""
        return self._committer.durable_seq

    @property
    def failed_total(self) -> int:
        """Records refused since the start."""
        return self._committer.failed_total

    @property
    def failed_checkpoints_total(self) -> int:
        """Times since the start that the write-ahead log could not be moved into the database; it grows meanwhile."""
        return self._committer.failed_checkpoints_total

    def _is_full(self) -> bool:
        return self._committer.queued >= self._config.queue_rows

    def _refusal(self) -> str | None:
        """Why no record is taken now."""
        journal = self._layout.journal(self.name)
        if self._committer.dead:
            return str(self._committer.failure)
        if self._closed:
            return f"{journal}: the writer is closed, expected an open one"
        if self._is_full():
            most = self._config.queue_rows
            return (
                f"{journal}: {self._committer.queued} records wait to be written, expected at most {most}; "
                f"slow down or raise queue_rows"
            )
        return None


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
