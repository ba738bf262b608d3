"""The one journal of a writer: an SQLite file of hot rows and of the catalogue of its sealed segments."""

import contextlib
import sqlite3
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from collector.errors import StoreError
from collector.records import TABLES
from collector.store.codec import StoredRow
from collector.store.layout import SCHEMA_VERSION, Layout, SegmentName

PAGE_BYTES = 16_384
"""SQLite page size of a journal."""

INCREMENTAL = 2
"""SQLite's auto_vacuum of a journal: free pages are kept account of, and given back when asked."""
_ROWS_A_STATEMENT = (64, 8, 1)
_CATALOGUE = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE segments (name TEXT PRIMARY KEY, tbl TEXT NOT NULL, lo INTEGER NOT NULL, hi INTEGER NOT NULL,
  row_count INTEGER NOT NULL, byte_count INTEGER NOT NULL, sha256 TEXT NOT NULL, sealed_at TEXT NOT NULL);
CREATE TABLE retired (name TEXT PRIMARY KEY, tbl TEXT NOT NULL, retired_at REAL NOT NULL);
CREATE TABLE tombstones (seq INTEGER PRIMARY KEY, tbl TEXT NOT NULL, erased_at TEXT NOT NULL);
CREATE TABLE quarantine (lo INTEGER NOT NULL, hi INTEGER NOT NULL, found TEXT NOT NULL, kept_at TEXT,
  found_at TEXT NOT NULL, accepted INTEGER NOT NULL DEFAULT 0);
"""


class Segment(NamedTuple):
    """A sealed file as the catalogue knows it: its rows' seqs lie between lo and hi."""

    name: str
    tbl: str
    lo: int
    hi: int
    row_count: int
    byte_count: int
    sha256: str
    sealed_at: str


class Loss(NamedTuple):
    """Records that were damaged and set aside: their seqs, what was found and where the remains are."""

    lo: int
    hi: int
    found: str
    kept_at: str | None
    found_at: str
    accepted: int


class Tombstone(NamedTuple):
    """An erased record: its seq stays taken."""

    seq: int
    tbl: str
    erased_at: str


class Retired(NamedTuple):
    """A replaced segment, and since when (seconds since 1970)."""

    name: str
    tbl: str
    retired_at: float


Entry = TypeVar("Entry", Segment, Loss, Tombstone, Retired)


def now_text() -> str:
    """The present time in UTC, as the catalogue writes it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


class Journal:
    """A journal opened for writing by the process that holds its lock."""

    def __init__(self, layout: Layout, writer: str) -> None:
        self.path = layout.journal(writer)
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, cached_statements=64)
        create(self._db, self.path, writer)

    def insert(self, rows: Mapping[str, Sequence[StoredRow]]) -> None:
        """Commits rows of several tables at once; on an error nothing of them is there."""
        with self.transaction() as db:
            for table, of_table in rows.items():
                insert_rows(db, table, of_table)

    @contextlib.contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """One durable transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def catalogue(self, table: str, upto: int, segment: Segment | None, damaged: Iterable[Loss] = ()) -> None:
        """Adds a sealed segment and deletes the hot rows up to a seq that it holds, in one transaction."""
        with self.transaction() as db:
            if segment is not None:
                db.execute("INSERT INTO segments VALUES (?,?,?,?,?,?,?,?)", segment)
            db.executemany("INSERT INTO quarantine VALUES (?,?,?,?,?,?)", damaged)
            db.execute(f"DELETE FROM hot_{table} WHERE seq <= ?", (upto,))

    def hot_state(self) -> dict[str, tuple[int, int]]:
        """Rows and bytes of every table's hot rows."""
        state: dict[str, tuple[int, int]] = {}
        for table in TABLES:
            rows, size = self._db.execute(
                f"SELECT count(*), coalesce(sum(length(body)), 0) FROM hot_{table}"
            ).fetchone()
            state[table] = (rows, size)
        return state

    def last_seq(self) -> int:
        """The highest seq the journal accounts for."""
        return last_seq(self._db)

    def checkpoint(self, mode: str = "PASSIVE") -> bool:
        """Moves the write-ahead log into the database; False when a reader was in the way."""
        return self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[0] == 0

    def vacuum(self) -> bool:
        """Rewrites the file without its free pages and empties the log; False when a reader was in the way."""
        self._db.execute("VACUUM")
        return self.checkpoint("TRUNCATE")

    def shrink(self, pages: int) -> bool:
        """Gives a number of free pages back to the file system; whether more are left.

        The first time on a file from before free pages were kept account of, it is rewritten as a whole.
        """
        if self._db.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
            self._db.execute("VACUUM")
            return False
        # As a script: `execute` goes on step by step for rows only, and this gives a page back with each step.
        self._db.executescript(f"PRAGMA incremental_vacuum({pages})")
        return bool(self._db.execute("PRAGMA freelist_count").fetchone()[0])

    def hot(self, table: str) -> list[StoredRow]:
        """A table's hot rows."""
        return read_hot(self._db, table)

    def segments(self) -> list[Segment]:
        """The catalogue."""
        return read_segments(self._db)

    def replace(
        self,
        old: Sequence[Segment],
        new: Segment | None,
        *,
        tombstones: Iterable[Tombstone] = (),
        damaged: Iterable[Loss] = (),
        retired_at: float | None = None,
    ) -> None:
        """Puts a segment in the place of others, in one transaction; with a time they stay on disk for readers."""
        with self.transaction() as db:
            db.executemany("DELETE FROM segments WHERE name = ?", [(segment.name,) for segment in old])
            if new is not None:
                db.execute("INSERT INTO segments VALUES (?,?,?,?,?,?,?,?)", new)
            db.executemany("INSERT INTO tombstones VALUES (?,?,?)", tombstones)
            db.executemany("INSERT INTO quarantine VALUES (?,?,?,?,?,?)", damaged)
            if retired_at is not None:
                db.executemany("INSERT INTO retired VALUES (?,?,?)", [(s.name, s.tbl, retired_at) for s in old])

    def bury(self, table: str, seqs: Sequence[int]) -> None:
        """Deletes hot rows and leaves a tombstone for each."""
        with self.transaction() as db:
            db.executemany(f"DELETE FROM hot_{table} WHERE seq = ?", [(seq,) for seq in seqs])
            db.executemany("INSERT INTO tombstones VALUES (?,?,?)", [(seq, table, now_text()) for seq in seqs])

    def rewrite(self, table: str, rows: Sequence[StoredRow]) -> None:
        """Puts other bodies in the place of hot rows, each under its seq."""
        with self.transaction() as db:
            statement = f"UPDATE hot_{table} SET packed = ?, crc32 = ?, body = ? WHERE seq = ?"
            db.executemany(statement, [(row.packed, row.crc32, row.body, row.seq) for row in rows])

    def note(self, key: str, value: str | None) -> None:
        """Keeps a note in the journal; None removes it."""
        with self.transaction() as db:
            db.execute("DELETE FROM meta WHERE key = ?", (key,))
            if value is not None:
                db.execute("INSERT INTO meta VALUES (?, ?)", (key, value))

    def noted(self, key: str) -> bool:
        """Whether there is such a note."""
        return bool(self._db.execute("SELECT 1 FROM meta WHERE key = ?", (key,)).fetchall())

    def forget_remains(self) -> None:
        """Notes that the files set aside as damaged are gone."""
        with self.transaction() as db:
            db.execute("UPDATE quarantine SET kept_at = NULL")

    def accept_losses(self) -> None:
        """Notes that a person knows of every loss."""
        with self.transaction() as db:
            db.execute("UPDATE quarantine SET accepted = 1")

    def close(self) -> None:
        """Closes the file; the last connection empties the write-ahead log."""
        self._db.close()


def insert_rows(db: sqlite3.Connection, table: str, rows: Sequence[StoredRow]) -> None:
    """Inserts hot rows of a table, within the transaction at hand."""
    # Each statement gives the interpreter lock away and may wait for it, so many rows go into one.
    start = 0
    for count in _ROWS_A_STATEMENT:
        statement = f"INSERT INTO hot_{table} VALUES {','.join(['(?,?,?,?)'] * count)}"
        while len(rows) - start >= count:
            db.execute(statement, list(chain.from_iterable(rows[start : start + count])))
            start += count


def create(db: sqlite3.Connection, path: Path, writer: str, *, auto_vacuum: int = INCREMENTAL) -> None:
    """Sets a connection up for durable writing, and makes the tables that are not there yet."""
    db.execute(f"PRAGMA page_size={PAGE_BYTES}")
    # So that free pages can be given back a few at a time; it is decided when the file is made, or rewritten.
    db.execute(f"PRAGMA auto_vacuum={auto_vacuum}")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("PRAGMA journal_size_limit=67108864")
    db.execute("PRAGMA temp_store=MEMORY")
    # Zeros over what is deleted where that costs no further write. The rest is in free pages: erasure gives them back.
    db.execute("PRAGMA secure_delete=FAST")
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchall():
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        for statement in _CATALOGUE.strip().split(";\n"):
            db.execute(statement)
        db.executemany("INSERT INTO meta VALUES (?,?)", [("schema_version", str(SCHEMA_VERSION)), ("writer", writer)])
    check_version(db, path)
    for table in TABLES:
        db.execute(
            f"CREATE TABLE IF NOT EXISTS hot_{table} "
            "(seq INTEGER PRIMARY KEY, packed INTEGER NOT NULL, crc32 INTEGER NOT NULL, body BLOB NOT NULL)"
        )
    db.execute("COMMIT")


def check_version(db: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError when the journal has another layout version, sqlite3.DatabaseError when it is damaged."""
    found = db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    (header,) = db.execute("PRAGMA user_version").fetchone()
    if found is None or found[0] != str(header):
        raise sqlite3.DatabaseError("the schema version is damaged")
    if header != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: schema version {header}, expected {SCHEMA_VERSION}; use the release of roundhouse that wrote it"
        )


def read_segments(db: sqlite3.Connection) -> list[Segment]:
    """The catalogue, in the order of the records; sqlite3.DatabaseError when an entry is damaged."""
    segments = _typed(Segment, db.execute("SELECT * FROM segments ORDER BY tbl, lo"))
    for segment in segments:
        name = SegmentName.parse(segment.name)
        if name is None or (name.lo, name.hi) != (segment.lo, segment.hi) or segment.tbl not in TABLES:
            raise sqlite3.DatabaseError(f"the catalogue's entry {segment.name!r} is damaged")
    return segments


def read_losses(db: sqlite3.Connection) -> list[Loss]:
    """What was set aside as damaged."""
    return _typed(Loss, db.execute("SELECT * FROM quarantine ORDER BY lo"))


def read_tombstones(db: sqlite3.Connection) -> list[Tombstone]:
    """Which records were erased."""
    return _typed(Tombstone, db.execute("SELECT * FROM tombstones ORDER BY seq"))


def read_retired(db: sqlite3.Connection) -> list[Retired]:
    """Replaced segments that stay for readers."""
    return _typed(Retired, db.execute("SELECT * FROM retired ORDER BY name"))


def _typed(kind: type[Entry], rows: Iterable[Sequence[Any]]) -> list[Entry]:
    try:
        return [msgspec.convert(row, kind) for row in rows]
    except msgspec.ValidationError as error:
        raise sqlite3.DatabaseError(f"a catalogue entry is damaged: {error}") from error


def read_hot(db: sqlite3.Connection, table: str, *, upto: int = 2**62) -> list[StoredRow]:
    """A table's hot rows in the order of their seq."""
    rows = db.execute(f"SELECT seq, packed, crc32, body FROM hot_{table} WHERE seq <= ? ORDER BY seq", (upto,))
    return [stored_row(row) for row in rows]


def stored_row(row: tuple[Any, ...]) -> StoredRow:
    """A row as read; one whose values are not even of their types becomes one that fails its crc32."""
    seq, packed, crc, body = row
    sound = isinstance(crc, int) and isinstance(body, bytes)
    return StoredRow(seq, packed, crc, body) if sound else StoredRow(seq, 0, -1, b"")


def last_seq(db: sqlite3.Connection) -> int:
    """The highest seq the journal accounts for; sqlite3.DatabaseError when one is no number."""
    queries = [f"SELECT max(seq) FROM hot_{table}" for table in TABLES]
    queries += ["SELECT max(hi) FROM segments", "SELECT max(seq) FROM tombstones", "SELECT max(hi) FROM quarantine"]
    seqs = [db.execute(query).fetchone()[0] or 0 for query in queries]
    if not all(isinstance(seq, int) for seq in seqs):
        raise sqlite3.DatabaseError("a seq is damaged")
    return max(seqs)


def is_unborn(path: Path) -> bool:
    """Whether a crash, or nothing yet, came before the journal's first transaction."""
    if not path.exists():
        return True
    db = _connect_read_only(path)
    try:
        return not db.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except sqlite3.Error:
        return False
    finally:
        db.close()


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing on disk and sees the write-ahead log, also in a read-only folder."""
    db = _connect_read_only(path)
    try:
        db.execute("SELECT 1 FROM meta").fetchall()
        check_version(db, path)
    except sqlite3.OperationalError:
        db.close()
        return _open_copy(path)
    except BaseException:
        db.close()
        raise
    return db


def _connect_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{_escaped(path)}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)


def _escaped(path: Path) -> str:
    return str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _open_copy(path: Path) -> sqlite3.Connection:
    # SQLite cannot read a write-ahead log without making a -shm file beside it, so a read-only folder is copied.
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="roundhouse-") as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-wal"):
            source = path.with_name(path.name + suffix)
            if source.exists():
                shutil.copyfile(source, copy.with_name(copy.name + suffix))
        db = _connect_read_only(copy)
        try:
            memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            db.backup(memory)
        finally:
            db.close()
    check_version(memory, path)
    return memory
