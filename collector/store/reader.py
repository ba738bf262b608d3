"""Reads a store: one consistent view over all journals and segments, which never blocks a writer."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.errors import StoreError
from collector.records import TABLES
from collector.store import codec
from collector.store.codec import StoredRow
from collector.store.erase import SCRUB_DUE
from collector.store.expert_files import read_expert_routes
from collector.store.health import tail_faults
from collector.store.journal import (
    Loss,
    Segment,
    is_unborn,
    last_seq,
    open_for_reading,
    read_hot,
    read_losses,
    read_segments,
)
from collector.store.layout import existing_store
from collector.store.mark import read_mark
from collector.store.snapshot import HotRows, Snapshot

_ACTION = "run roundhouse verify"


class Reader:
    """Opens snapshots of a store; keeps nothing open between them."""

    def __init__(self, store: Path) -> None:
        self._layout = existing_store(store)

    def snapshot(self, tables: Sequence[str] | None = None) -> Snapshot:
        """The store as it is now: of all tables, or of the named ones only. Journals are pinned effects first."""
        wanted = list(TABLES) if tables is None else list(tables)
        segments: list[Segment] = []
        hot: dict[str, list[HotRows]] = {table: [] for table in wanted}
        damage: list[str] = []
        erasing = False
        for writer in self._layout.writers():
            path = self._layout.journal(writer)
            # A writer commits before it marks, so a mark that is read before the journal is never ahead of it.
            mark = read_mark(self._layout.mark(writer))
            if not mark and is_unborn(path):
                continue
            try:
                pinned = _pin(path, wanted)
            except sqlite3.Error as error:
                raise StoreError(
                    f"{path}: {error}, expected a readable journal; {_ACTION} to set the damage aside"
                ) from error
            if mark is None and pinned.last_seq and read_mark(self._layout.mark(writer)) is not None:
                # A writer's first start made it meanwhile; it may be ahead of what was pinned by now.
                mark = 0
            tail = tail_faults(str(path), mark=mark, last_seq=pinned.last_seq, counted=pinned.counted)
            damage += [*pinned.damage(path), *(str(fault._replace(action=_ACTION)) for fault in tail)]
            erasing = erasing or pinned.erasing
            segments += [segment for segment in pinned.segments if segment.tbl in hot]
            for table, rows in pinned.hot.items():
                hot[table].append(HotRows(writer, rows))
        return Snapshot(self._layout, segments, hot, damage, prompts_at_risk=bool(damage) or erasing)

    def expert_routes(self, turn_id: str) -> NDArray[np.int32] | None:
        """Experts of each token of a turn but the last, by layer and rank; None where none were kept, or no longer."""
        with self.snapshot(["turns"]) as snapshot:
            named = snapshot.frame("turns", turn_id=turn_id, columns=["routed_experts"])["routed_experts"].drop_nulls()
        return read_expert_routes(self._layout.root, named[0]) if len(named) else None


class _Pinned(NamedTuple):
    """A journal as one transaction shows it."""

    segments: list[Segment]
    hot: dict[str, list[StoredRow]]
    """The whole hot rows of the wanted tables."""
    broken: dict[str, int]
    """How many more there are that fail their crc32."""
    losses: list[Loss]
    last_seq: int
    counted: int
    """Seqs that a row, a tombstone or a noted loss accounts for."""
    erasing: bool
    """Whether an erasure is under way, or was cut short: a turn may be gone that another one extends."""

    def damage(self, path: Path) -> list[str]:
        """What is lost and what fails its crc32, a line each."""
        lines = [f"{loss.found} (records {loss.lo} to {loss.hi} of {path.stem})" for loss in self.losses]
        for table, rows in self.broken.items():
            lines += [f"{path}: {rows} hot rows of {table} fail their crc32; {_ACTION}"] if rows else []
        return lines


def _pin(path: Path, tables: Sequence[str]) -> _Pinned:
    db = open_for_reading(path)
    try:
        db.execute("BEGIN")
        segments, losses = read_segments(db), read_losses(db)
        counted = sum(segment.row_count for segment in segments) + sum(loss.hi - loss.lo + 1 for loss in losses)
        for table in (*(f"hot_{table}" for table in TABLES), "tombstones"):
            counted += db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        hot = {table: read_hot(db, table) for table in tables}
        last = last_seq(db)
        erasing = bool(db.execute("SELECT 1 FROM meta WHERE key = ?", (SCRUB_DUE,)).fetchall())
    finally:
        db.close()
    whole = {table: [row for row in rows if codec.is_whole(row)] for table, rows in hot.items()}
    broken = {table: len(rows) - len(whole[table]) for table, rows in hot.items()}
    return _Pinned(segments, whole, broken, losses, last, counted, erasing)
