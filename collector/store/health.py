"""What a journal accounts for, and what is wrong with it; looking changes nothing on disk."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from collector.records import TABLES
from collector.store import codec
from collector.store.journal import (
    Loss,
    Segment,
    is_unborn,
    last_seq,
    open_for_reading,
    read_hot,
    read_losses,
    read_retired,
    read_segments,
    read_tombstones,
)
from collector.store.layout import Layout
from collector.store.mark import read_mark


class Fault(NamedTuple):
    """Something wrong in a store: where, what was found, what was expected, what to do."""

    where: str
    found: str
    expected: str
    action: str

    def __str__(self) -> str:
        return f"{self.where}: {self.found}, expected {self.expected}; {self.action}"


class Health(NamedTuple):
    """A journal's catalogue and hot seqs as they can be read, and its faults."""

    hot: dict[str, list[int]]
    segments: list[Segment]
    tombstones: list[int]
    losses: list[Loss]
    retired: list[str]
    last_seq: int
    mark: int | None
    faults: list[Fault]
    """Of the journal itself: its pages, its records, its tail."""


_SALVAGE = "what can be read is saved into a new journal, the damaged one is moved to quarantine/"


def inspect_journal(layout: Layout, writer: str) -> Health:
    """Reads a whole journal: its pages, the crc32 of its records, and whether its seqs reach its mark."""
    where = f"journals/{writer}.sqlite"
    mark = read_mark(layout.mark(writer))
    if not mark and is_unborn(layout.journal(writer)):
        return Health({}, [], [], [], [], 0, mark, [])
    try:
        db = open_for_reading(layout.journal(writer))
    except sqlite3.Error as error:
        return Health({}, [], [], [], [], 0, mark, [Fault(where, str(error), "an SQLite journal", _SALVAGE)])
    try:
        db.execute("BEGIN")
        faults = _page_faults(db, where)
        hot, damaged = _hot_seqs(db, where)
        tombstones = [tombstone.seq for tombstone in read_tombstones(db)]
        retired = [retired.name for retired in read_retired(db)]
        segments, losses, last = read_segments(db), read_losses(db), last_seq(db)
    except sqlite3.Error as error:
        return Health({}, [], [], [], [], 0, mark, [Fault(where, str(error), "readable pages", _SALVAGE)])
    finally:
        db.close()
    counted = sum(map(len, hot.values())) + len(tombstones) + sum(segment.row_count for segment in segments)
    counted += sum(loss.hi - loss.lo + 1 for loss in losses)
    tail = tail_faults(where, mark=mark, last_seq=last, counted=counted)
    return Health(hot, segments, tombstones, losses, retired, last, mark, [*faults, *damaged, *tail])


def _page_faults(db: sqlite3.Connection, where: str) -> list[Fault]:
    answer = db.execute("PRAGMA quick_check(1)").fetchall()
    return [] if answer == [("ok",)] else [Fault(where, str(answer[0][0]).replace("\n", " "), "sound pages", _SALVAGE)]


def _hot_seqs(db: sqlite3.Connection, where: str) -> tuple[dict[str, list[int]], list[Fault]]:
    hot: dict[str, list[int]] = {}
    faults: list[Fault] = []
    for table in TABLES:
        rows = read_hot(db, table)
        broken = [row.seq for row in rows if not codec.is_whole(row)]
        hot[table] = [row.seq for row in rows]
        if broken:
            found = f"{table} record {ranges_text(broken)} fails its crc32"
            faults.append(Fault(where, found, "the bytes that were written", _SALVAGE))
    return hot, faults


def tail_faults(where: str, *, mark: int | None, last_seq: int, counted: int) -> list[Fault]:
    """What a journal lacks of the records it gave out: up to its mark, and one for each seq."""
    faults: list[Fault] = []
    if mark is None and last_seq:
        mark_file = where.replace(".sqlite", ".mark")
        faults.append(Fault(mark_file, "no readable mark", "the acknowledged high-water mark", "it is written anew"))
    if mark is not None and mark > last_seq:
        found = f"the last record is {last_seq}, so the tail is lost"
        faults.append(Fault(where, found, f"record {mark}, which was acknowledged", _SALVAGE))
    if counted != last_seq:
        faults.append(Fault(where, f"{counted} records", f"{last_seq}, one for each seq", _SALVAGE))
    return faults


def ranges(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of neighbouring seqs, as (first, last)."""
    runs: list[tuple[int, int]] = []
    for seq in sorted(seqs):
        if runs and seq == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], seq)
        else:
            runs.append((seq, seq))
    return runs


def ranges_text(seqs: Iterable[int]) -> str:
    """Runs of neighbouring seqs for a person; at most five of them."""
    runs = ranges(seqs)
    shown = ", ".join(str(lo) if lo == hi else f"{lo} to {hi}" for lo, hi in runs[:5])
    return shown if len(runs) <= 5 else f"{shown} and {len(runs) - 5} more runs"
