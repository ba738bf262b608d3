"""The journalled tables of a store, held narrow, and followed as they grow."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa

from collector.records import TABLES
from collector.store.layout import Layout
from collector.store.reader import Reader
from console.watch.replayed import newest
from console.watch.source.growing_table import GrowingTable
from console.watch.source.journal_tail import read_tail
from console.watch.source.sealed_rows import rows_of
from console.watch.source.trained_marks import NO_MARKS, first_marks, marked, with_written_at

HELD = [table for table in TABLES if table != "scores"]
"""What is held; of scores, what they say of their turns."""


class StoreRows:
    """Rows by table. Opening reads everything."""

    def __init__(self, store: Path) -> None:
        self._reader = Reader(store)
        self._layout = Layout(store)
        self._tables = {table: GrowingTable(table) for table in HELD}
        self._next: dict[str, int] = {}
        self._damage: list[str] = []
        self._marks = NO_MARKS
        self.newest_at: datetime | None = None
        """Time of the newest row."""
        self.scores = 0
        """How many scores were read."""
        self.came_at: datetime | None = None
        """When rows last came after it was opened."""
        # Before the rows: what goes while they are read shows as another standing later.
        self._standing = {name: read_tail(self._layout, name, 0, ()).standing for name in self._layout.writers()}
        self._read_on(None)
        # What reading everything took is given back: a console stands open for days.
        pa.default_memory_pool().release_unused()

    @property
    def damage(self) -> tuple[str, ...]:
        """What could not be read, a line each."""
        return tuple(self._damage)

    def frames(self) -> dict[str, pl.DataFrame]:
        """Every table."""
        return {table: growing.frame() for table, growing in self._tables.items()}

    def follow(self, writers: Collection[str]) -> bool | None:
        """Reads what is new in the journals of some writers; whether anything is.

        None when records were erased, lost or set aside: then everything is to be read anew.
        """
        frames: dict[str, list[pl.DataFrame]] = {}
        damage: list[str] = []
        next_seqs = dict(self._next)
        for writer in self._layout.writers():
            if writer not in writers:
                continue
            tail = read_tail(self._layout, writer, self._next.get(writer, 0), [*TABLES])
            if tail.standing != self._standing.setdefault(writer, tail.standing):
                return None
            if tail.sealed or self._damage:
                # The rows went from the journal before they were seen, or what was lost may be what they extend.
                return self._read_on(datetime.now(UTC))
            for table, rows in tail.frames.items():
                frames.setdefault(table, []).append(rows)
            damage += tail.damage
            next_seqs[writer] = tail.next_seq
        self._next = next_seqs
        return self._took({table: pl.concat(rows) for table, rows in frames.items()}, damage, datetime.now(UTC))

    def _read_on(self, read_at: datetime | None) -> bool:
        """What is new by a snapshot of the whole store; slower, and always right."""
        damage: list[str] = []
        frames: dict[str, pl.DataFrame] = {}
        with self._reader.snapshot() as snapshot:
            for table in TABLES:
                found = rows_of(snapshot, table, self._next, damage)
                if found:
                    frames[table] = pl.concat(found)
            damage += snapshot.damage
        for rows in frames.values():
            for writer, last in rows.group_by("writer").agg(pl.col("seq").max()).rows():
                self._next[writer] = max(self._next.get(writer, 0), last + 1)
        return self._took(frames, damage, read_at)

    def _took(self, frames: dict[str, pl.DataFrame], damage: list[str], read_at: datetime | None) -> bool:
        if "evals" in frames:
            frames["evals"] = with_written_at(frames, read_at)
        for table in HELD:
            if table in frames:
                self._tables[table].add(frames[table])
        self.newest_at = max((time for time in (self.newest_at, newest(frames)) if time is not None), default=None)
        if "scores" in frames:
            self.scores += frames["scores"].height
            self._marks = pl.concat([self._marks, first_marks(frames["scores"])]).unique(
                "turn_id", keep="first", maintain_order=True
            )
        if {"turns", "scores"} & frames.keys() and not self._marks.is_empty():
            told = self._marks
            left = self._tables["turns"].change("turn_id", told["turn_id"], lambda turns: marked(turns, told))
            # A writer's score can be read before the other writer's turn: it is marked once that is there.
            self._marks = told.filter(pl.col("turn_id").is_in(left.implode()))
        self.came_at = read_at if frames and read_at is not None else self.came_at
        known = len(self._damage)
        self._damage = [*dict.fromkeys([*self._damage, *damage])]
        return bool(frames) or len(self._damage) != known
