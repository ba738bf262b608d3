"""Reads a store: one consistent view over all journals and segments, which never blocks a writer."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from collector.errors import StoreError
from collector.records import TABLES
from collector.store import codec
from collector.store.codec import StoredRow
from collector.store.journal import Segment, is_unborn, open_for_reading, read_hot, read_losses, read_segments
from collector.store.layout import existing_store
from collector.store.mark import read_mark
from collector.store.snapshot import HotRows, Snapshot


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
        for writer in self._layout.writers():
            path = self._layout.journal(writer)
            if not read_mark(self._layout.mark(writer)) and is_unborn(path):
                continue
            try:
                catalogue, rows = _pin(path, wanted, damage)
            except sqlite3.Error as error:
                raise StoreError(
                    f"{path}: {error}, expected a readable journal; run roundhouse verify to set the damage aside"
                ) from error
            segments += [segment for segment in catalogue if segment.tbl in hot]
            for table, of_table in rows.items():
                hot[table].append(HotRows(writer, of_table))
        return Snapshot(self._layout, segments, hot, damage)


def _pin(path: Path, tables: Sequence[str], damage: list[str]) -> tuple[list[Segment], dict[str, list[StoredRow]]]:
    db = open_for_reading(path)
    try:
        db.execute("BEGIN")
        segments = read_segments(db)
        hot = {table: read_hot(db, table) for table in tables}
        damage += [f"{loss.found} (records {loss.lo} to {loss.hi} of {path.stem})" for loss in read_losses(db)]
    finally:
        db.close()
    for table, rows in hot.items():
        whole = [row for row in rows if codec.is_whole(row)]
        if len(whole) < len(rows):
            damage.append(
                f"{path}: {len(rows) - len(whole)} hot rows of {table} fail their crc32; run roundhouse verify"
            )
            hot[table] = whole
    return segments, hot
