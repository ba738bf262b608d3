"""Erases sessions from one journal and its segments; a tombstone keeps each erased record's seq."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Protocol

import pyarrow as pa

from collector.errors import StoreError
from collector.records import TABLES
from collector.store import codec
from collector.store.codec import StoredRow
from collector.store.columns import stored_columns
from collector.store.compaction import next_generation, read_segment
from collector.store.journal import Journal, Loss, Segment, Tombstone, now_text
from collector.store.layout import Layout, fsync_folder
from collector.store.mentions import Mentions, rewrite_mentions
from collector.store.segments import Hook, write_segment

SCRUB_DUE = "scrub_due"
"""Noted in a journal from before an erasure until no byte of it is left."""

_READER_WAIT_S = 10.0


class Erasure:
    """Which records go: those of the sessions, those about their turns, and those of the users."""

    def __init__(
        self,
        sessions: frozenset[str],
        turn_ids: frozenset[str],
        user_hashes: frozenset[str] = frozenset(),
        *,
        upto: int | None = None,
        feedback_ids: frozenset[str] = frozenset(),
    ) -> None:
        """`upto` is the last seq of the journal that may go: what came later is of a session that began anew.
        `feedback_ids` are those of judgements that go, as far as others may speak of them."""
        self._wanted = {"session_id": sessions, "turn_id": turn_ids, "user_hash": user_hashes}
        self.upto = 2**62 if upto is None else upto
        self.names = sessions | turn_ids | user_hashes | feedback_ids
        """What no other record may speak of afterwards."""

    def match(self, table: str) -> Callable[[Sequence[Any]], bool]:
        """Whether plain stored values of a table belong to what is erased."""
        names = [column.name for column in stored_columns(table)]
        keys = [(names.index(name), wanted) for name, wanted in self._wanted.items() if name in names]
        return lambda values: any(values[index] in wanted for index, wanted in keys)

    def mask(self, rows: pa.Table) -> list[bool]:
        """True for each row that is erased; empty when the table has no key that could tell."""
        names = [name for name, wanted in self._wanted.items() if wanted and name in rows.schema.names]
        keys = [zip(rows[name].to_pylist(), repeat(self._wanted[name])) for name in names]
        found = [any(value in wanted for value, wanted in of_row) for of_row in zip(*keys, strict=True)]
        if "seq" not in rows.schema.names:
            return found
        return [erased and seq <= self.upto for erased, seq in zip(found, rows["seq"].to_pylist(), strict=False)]


class ErasableJournal(Protocol):
    """What an erasure needs of a journal."""

    def note(self, key: str, value: str | None) -> None: ...
    def hot(self, table: str) -> list[StoredRow]: ...
    def segments(self) -> list[Segment]: ...
    def bury(self, table: str, seqs: Sequence[int]) -> None: ...
    def rewrite(self, table: str, rows: Sequence[StoredRow]) -> None: ...
    def replace(
        self,
        old: Sequence[Segment],
        new: Segment | None,
        *,
        tombstones: Iterable[Tombstone] = (),
        damaged: Iterable[Loss] = (),
        retired_at: float | None = None,
    ) -> None: ...


def erase(layout: Layout, writer: str, journal: Journal, erasure: Erasure, hook: Hook) -> int:
    """Erases what matches and leaves none of its bytes in the journal, its log or its segments; returns how many."""
    journal.note(SCRUB_DUE, "1")
    erased = erase_records(layout, writer, journal, erasure, hook)
    journal.forget_remains()
    scrub(journal)
    return erased


def erase_records(
    layout: Layout, writer: str, journal: ErasableJournal, erasure: Erasure, hook: Hook, *, keep_files: bool = False
) -> int:
    """Erases what matches; returns how many. `keep_files` leaves replaced segments to readers for their grace."""
    rewrite_mentions(layout, writer, journal, Mentions(erasure.names), hook, keep_files=keep_files)
    erased = 0
    # Turns go last: after a crash their ids are still there to find what is about them.
    for table in sorted(TABLES, key=lambda table: table == "turns"):
        erased += _erase_hot(journal, table, erasure)
        for segment in journal.segments():
            if segment.tbl == table:
                erased += _erase_sealed(layout, writer, journal, segment, erasure, hook, keep_files)
    return erased


def _erase_hot(journal: ErasableJournal, table: str, erasure: Erasure) -> int:
    match = erasure.match(table)
    gone: list[int] = []
    for row in journal.hot(table):
        values = codec.open_row(row)
        if values is not None and row.seq <= erasure.upto and match(values):
            gone.append(row.seq)
    if gone:
        journal.bury(table, gone)
    return len(gone)


def _erase_sealed(
    layout: Layout,
    writer: str,
    journal: ErasableJournal,
    segment: Segment,
    erasure: Erasure,
    hook: Hook,
    keep_files: bool,
) -> int:
    rows = read_segment(layout, segment)
    mask = erasure.mask(rows)
    if not any(mask):
        return 0
    gone = rows.filter(pa.array(mask))["seq"].to_pylist()
    kept = rows.filter(pa.array([not erased for erased in mask]))
    fresh = None
    if kept.num_rows:
        fresh = write_segment(layout, segment.tbl, kept, writer, next_generation([segment]), hook)
    tombstones = [Tombstone(seq, segment.tbl, now_text()) for seq in gone]
    journal.replace([segment], fresh, tombstones=tombstones, retired_at=time.time() if keep_files else None)
    hook("replaced")
    if keep_files:
        return len(gone)
    path = layout.table(segment.tbl) / segment.name
    path.unlink(missing_ok=True)
    fsync_folder(path.parent)
    return len(gone)


def scrub(journal: Journal) -> None:
    """Leaves nothing in free pages and nothing in the log; a reader that holds the log is waited for."""
    deadline = time.monotonic() + _READER_WAIT_S
    while not journal.vacuum():
        if time.monotonic() > deadline:
            raise StoreError(
                f"{journal.path}: a reader still holds the write-ahead log, expected it to end; "
                f"the records are erased, run forget again to clear the log"
            )
        time.sleep(0.05)
    journal.note(SCRUB_DUE, None)
