"""The end of one journal: what was written since it was read last."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from collector.errors import StoreError
from collector.store import codec
from collector.store.erase import SCRUB_DUE
from collector.store.journal import is_unborn, open_for_reading, stored_row
from collector.store.layout import Layout
from console.watch.source.narrow_rows import narrow


class Standing(NamedTuple):
    """What of a journal changes when records go, or are replaced: another one means reading everything anew."""

    tombstones: int = 0
    losses: int = 0
    erasing: bool = False


class Tail(NamedTuple):
    """What there is from a seq on."""

    standing: Standing
    frames: dict[str, pl.DataFrame]
    """Hot rows by table, narrow."""
    damage: list[str]
    next_seq: int
    """The first seq that was not seen."""
    sealed: bool
    """Whether rows from that seq on lie in segments: they are to be read from there."""


def read_tail(layout: Layout, writer: str, since: int, tables: Sequence[str]) -> Tail:
    """The hot rows of a journal from a seq on, in one transaction."""
    path = layout.journal(writer)
    if is_unborn(path):
        return Tail(Standing(), {}, [], since, False)
    try:
        db = open_for_reading(path)
        try:
            db.execute("BEGIN")
            return _tail(db, writer, since, tables)
        finally:
            db.close()
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}, expected a readable journal; run roundhouse verify") from error


def _tail(db: sqlite3.Connection, writer: str, since: int, tables: Sequence[str]) -> Tail:
    standing = Standing(
        db.execute("SELECT count(*) FROM tombstones").fetchone()[0],
        db.execute("SELECT count(*) FROM quarantine").fetchone()[0],
        bool(db.execute("SELECT 1 FROM meta WHERE key = ?", (SCRUB_DUE,)).fetchall()),
    )
    frames: dict[str, pl.DataFrame] = {}
    damage: list[str] = []
    next_seq = since
    for table in tables:
        found = db.execute(f"SELECT seq, packed, crc32, body FROM hot_{table} WHERE seq >= ? ORDER BY seq", (since,))
        opened: list[tuple[int, int, Sequence[object]]] = []
        for row in map(stored_row, found):
            values = codec.open_row(row)
            next_seq = max(next_seq, row.seq + 1)
            if values is None:
                damage.append(f"record {row.seq} of {writer} ({table}) fails its crc32; run roundhouse verify")
            else:
                opened.append((row.seq, row.crc32, values))
        if opened:
            frames[table] = narrow(table, codec.to_arrow(table, writer, opened))
    newest_sealed = db.execute("SELECT max(hi) FROM segments").fetchone()[0] or 0
    return Tail(standing, frames, damage, next_seq, newest_sealed >= since)
