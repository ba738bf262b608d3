"""Saves what can be read of a damaged journal into a new one, and moves the damaged files aside.

Records are immutable and carry a crc32, so every reading of the damaged files may be asked for records: as SQLite
sees them, with the frames beyond a damaged one, without the log, and with a sound first page.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from collector.records import TABLES
from collector.store import codec
from collector.store.codec import StoredRow
from collector.store.health import ranges
from collector.store.journal import (
    INCREMENTAL,
    PAGE_BYTES,
    Loss,
    Retired,
    Segment,
    Tombstone,
    create,
    insert_rows,
    last_seq,
    now_text,
    read_losses,
    read_retired,
    read_segments,
    read_tombstones,
    stored_row,
)
from collector.store.layout import Layout, SegmentName, fsync_folder
from collector.store.mark import read_mark
from collector.store.segments import sha256_of
from collector.store.wal import overlaid

_UNMARKED = 1_024
"""How far beyond the mark records are looked for one by one: a few commits, none of them answered."""
_TREE_KINDS = (b"\x02", b"\x05", b"\x0a", b"\x0d")
_SUFFIXES = ("", "-wal", "-shm")


class _Found:
    """What the readings of a damaged journal gave so far."""

    def __init__(self) -> None:
        self.hot: dict[str, dict[int, StoredRow]] = {table: {} for table in TABLES}
        self.segments: list[Segment] | None = None
        self.retired: list[Retired] = []
        self.tombstones: dict[int, Tombstone] = {}
        self.losses: dict[tuple[int, int], Loss] = {}
        self.last_seq = 0
        """The highest seq that is told; a damaged row may tell any."""


def salvage(layout: Layout, writer: str, found: str) -> list[Loss]:
    """Replaces a damaged journal by one with everything readable; returns what is lost."""
    finish_salvage(layout, writer)
    mark = read_mark(layout.mark(writer))
    gathered = _gather(layout, writer, mark)
    sealed: set[int] = set()
    for segment in gathered.segments or ():
        sealed |= seqs_of(layout, segment)
    for rows in gathered.hot.values():
        for seq in [seq for seq in rows if seq in sealed or seq in gathered.tombstones]:
            del rows[seq]
    known = sealed.union(gathered.tombstones, *gathered.hot.values())
    kept_at = layout.new_quarantine(writer)
    losses = _losses(gathered, known, mark, found, str(kept_at.relative_to(layout.root)))
    fresh = layout.journal(writer).with_suffix(".sqlite.new")
    _build(fresh, writer, gathered, losses)
    _swap(layout, writer, kept_at)
    return losses


def finish_salvage(layout: Layout, writer: str) -> None:
    """Completes or undoes a salvage that a crash cut short."""
    fresh = layout.journal(writer).with_suffix(".sqlite.new")
    if not fresh.exists():
        return
    if layout.journal(writer).exists():
        for suffix in ("", "-wal", "-shm", "-journal"):
            fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
        return
    _swap(layout, writer, layout.new_quarantine(writer))


def seqs_of(layout: Layout, segment: Segment) -> set[int]:
    """The seqs of a segment's rows; empty when the file cannot be read."""
    try:
        return set(pq.read_table(layout.table(segment.tbl) / segment.name, columns=["seq"])["seq"].to_pylist())
    except (OSError, pa.ArrowException):
        return set()


def _swap(layout: Layout, writer: str, kept_at: Path) -> None:
    # The database goes first: from here on a crash finds no journal and takes the new one, which is whole.
    journal = layout.journal(writer)
    for suffix in _SUFFIXES:
        damaged = journal.with_name(journal.name + suffix)
        if damaged.exists():
            damaged.rename(kept_at / damaged.name)
            fsync_folder(journal.parent)
    journal.with_suffix(".sqlite.new").rename(journal)
    fsync_folder(journal.parent)
    fsync_folder(kept_at)


def _gather(layout: Layout, writer: str, mark: int | None) -> _Found:
    found = _Found()
    with tempfile.TemporaryDirectory(prefix="roundhouse-") as folder:
        readings = [sqlite3.connect(path, isolation_level=None) for path in _readings(layout.journal(writer), folder)]
        try:
            for db in readings:
                _gather_catalogue(db, found)
            if found.segments is None:
                found.segments = _segments_on_disk(layout, writer)
            upto = (found.last_seq if mark is None else mark) + _UNMARKED
            for table, rows in found.hot.items():
                sealed_to = max((segment.hi for segment in found.segments if segment.tbl == table), default=0)
                for db in readings:
                    for row in _readable_rows(db, table, sealed_to, upto):
                        if row.seq not in rows and codec.is_whole(row):
                            rows[row.seq] = row
        finally:
            for db in readings:
                db.close()
    return found


def _readings(journal: Path, folder: str) -> list[Path]:
    """Files that show the damaged journal in different ways, the newest first."""
    database = journal.read_bytes() if journal.exists() else b""
    log = journal.with_name(journal.name + "-wal")
    log_bytes = log.read_bytes() if log.exists() else b""
    patched = overlaid(database, log_bytes)
    images = [(patched, b""), (database, log_bytes), (database, b"")]
    first = _first_page(Path(folder), patched or database)
    images += [(first + image[PAGE_BYTES:], b"") for image in (patched, database) if image]
    paths: list[Path] = []
    for number, (image, image_log) in enumerate(images):
        if image:
            paths.append(Path(folder) / f"{number}.sqlite")
            paths[-1].write_bytes(image)
            paths[-1].with_name(paths[-1].name + "-wal").write_bytes(image_log)
    return paths


def _first_page(folder: Path, image: bytes) -> bytes:
    """The first page of an empty journal, whose table roots are where every journal of this kind has them."""
    path = folder / "template.sqlite"
    db = sqlite3.connect(path, isolation_level=None)
    # Where free pages are kept account of, the second page begins with the kind of the third, a root: 1. It is a page
    # of a tree otherwise, and begins with the kind of that.
    accounted = image[PAGE_BYTES : PAGE_BYTES + 1] not in _TREE_KINDS
    create(db, path, "template", auto_vacuum=INCREMENTAL if accounted else 0)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    page = bytearray(path.read_bytes()[:PAGE_BYTES])
    page[28:32] = (len(image) // PAGE_BYTES).to_bytes(4, "big")
    return bytes(page)


def _gather_catalogue(db: sqlite3.Connection, found: _Found) -> None:
    """The newest readable list of segments; tombstones and losses of any reading, since they are never taken back."""
    if found.segments is None:
        with suppress(sqlite3.Error):
            retired, segments = read_retired(db), read_segments(db)
            found.segments, found.retired = segments, retired
    with suppress(sqlite3.Error):
        for tombstone in read_tombstones(db):
            found.tombstones.setdefault(tombstone.seq, tombstone)
    with suppress(sqlite3.Error):
        for loss in read_losses(db):
            found.losses.setdefault((loss.lo, loss.hi), loss)
    with suppress(sqlite3.Error):
        found.last_seq = max(found.last_seq, last_seq(db))


def _readable_rows(db: sqlite3.Connection, table: str, after: int, upto: int) -> Iterator[StoredRow]:
    """Hot rows from both ends of the table, and one by one where a damaged page lies between."""
    query = f"SELECT seq, packed, crc32, body FROM hot_{table}"
    ends = {"ASC": after, "DESC": upto + 1}
    for order in ends:
        try:
            for row in db.execute(f"{query} ORDER BY seq {order}"):
                yield stored_row(row)
                ends[order] = row[0]
        except sqlite3.Error:
            continue
        return
    for seq in range(ends["ASC"] + 1, ends["DESC"]):
        try:
            rows = db.execute(f"{query} WHERE seq = ?", (seq,)).fetchall()
        except sqlite3.Error:
            continue
        yield from map(stored_row, rows)


def _segments_on_disk(layout: Layout, writer: str) -> list[Segment]:
    """A catalogue made from the files themselves; of files that overlap, the later generation."""
    newest: list[tuple[SegmentName, str, Path]] = []
    for path in layout.segments.glob("*/*.parquet"):
        name = SegmentName.parse(path.name)
        if name is not None and name.writer == writer:
            newest.append((name, path.parent.name, path))
    newest.sort(key=lambda entry: -entry[0].generation)
    taken: dict[str, set[int]] = {}
    segments: list[Segment] = []
    for name, table, path in newest:
        size = path.stat().st_size
        segment = Segment(path.name, table, name.lo, name.hi, 0, size, sha256_of(path), now_text())
        seqs = seqs_of(layout, segment)
        if seqs and not seqs & taken.setdefault(table, set()):
            taken[table] |= seqs
            segments.append(segment._replace(row_count=len(seqs)))
    return segments


def _losses(found: _Found, known: set[int], mark: int | None, cause: str, kept_at: str) -> list[Loss]:
    """Every seq that was given out and that nothing accounts for."""
    old = {seq for loss in found.losses.values() for seq in range(loss.lo, loss.hi + 1)}
    last = max([found.last_seq if mark is None else mark, *known, *old])
    missing = set(range(1, last + 1)) - known - old
    return [Loss(lo, hi, cause, kept_at, now_text(), 0) for lo, hi in ranges(missing)]


def _build(path: Path, writer: str, found: _Found, losses: list[Loss]) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        create(db, path, writer)
        db.execute("BEGIN IMMEDIATE")
        for table, rows in found.hot.items():
            insert_rows(db, table, [rows[seq] for seq in sorted(rows)])
        db.executemany("INSERT INTO segments VALUES (?,?,?,?,?,?,?,?)", found.segments or ())
        db.executemany("INSERT INTO retired VALUES (?,?,?)", found.retired)
        db.executemany("INSERT INTO tombstones VALUES (?,?,?)", found.tombstones.values())
        db.executemany("INSERT INTO quarantine VALUES (?,?,?,?,?,?)", [*(found.losses.values()), *losses])
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
