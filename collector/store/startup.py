"""Opening a journal for writing: folders, lock, repair of what a crash or a damaged disk left behind."""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from collector.errors import StoreError
from collector.records import TABLES
from collector.store.erase import SCRUB_DUE, scrub
from collector.store.health import inspect_journal
from collector.store.journal import Journal, last_seq
from collector.store.layout import Layout, SegmentName, fsync_folder
from collector.store.mark import Mark, read_mark
from collector.store.salvage import finish_salvage, salvage
from collector.store.segments import Hook, write_schema_file
from collector.store.writer_lock import WriterLock


class Opened(NamedTuple):
    """A journal that is locked, repaired and open for writing."""

    lock: WriterLock
    journal: Journal
    mark: Mark
    last_seq: int
    repaired: list[str]
    """What was found damaged and set aside, one line each."""

    def close(self) -> None:
        """Lets go of the journal."""
        self.journal.close()
        self.mark.close()
        self.lock.release()


def open_store(layout: Layout, writer: str, hook: Hook) -> Opened:
    """Locks, repairs and opens a writer's journal; StoreError in one line when that is not possible."""
    make_folders(layout)
    lock = WriterLock(layout, writer)
    try:
        return _open_locked(layout, writer, lock, hook)
    except (sqlite3.Error, OSError) as error:
        lock.release()
        raise StoreError(
            f"{layout.journal(writer)}: {error}, expected a journal that can be written; "
            f"check the disk's room and rights, then run roundhouse verify"
        ) from error
    except BaseException:
        lock.release()
        raise


def _open_locked(layout: Layout, writer: str, lock: WriterLock, hook: Hook) -> Opened:
    repaired = repair_journal(layout, writer)
    hook("inspected")
    journal = Journal(layout, writer)
    try:
        delete_orphans(layout, writer, journal, hook)
        if journal.noted(SCRUB_DUE):
            scrub(journal)
        for table in TABLES:
            write_schema_file(layout, table)
        with journal.transaction() as db:
            last = last_seq(db)
        marked = read_mark(layout.mark(writer)) or 0
        mark = Mark(layout.mark(writer))
        mark.write(max(last, marked))
    except BaseException:
        journal.close()
        raise
    return Opened(lock, journal, mark, max(last, marked), repaired)


def repair_journal(layout: Layout, writer: str) -> list[str]:
    """Replaces a damaged journal by one with everything readable; says what was found."""
    finish_salvage(layout, writer)
    faults = inspect_journal(layout, writer).faults
    if any(fault.where.endswith(".sqlite") for fault in faults):
        salvage(layout, writer, "; ".join(f"{fault.where}: {fault.found}" for fault in faults))
    if any(fault.where.endswith(".mark") for fault in faults):
        mark = Mark(layout.mark(writer))
        mark.write(inspect_journal(layout, writer).last_seq)
        mark.close()
    return [str(fault) for fault in faults]


def make_folders(layout: Layout) -> None:
    """Makes the store's folders; StoreError when that is not allowed."""
    try:
        for folder in (layout.journals, *(layout.table(table) for table in TABLES)):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                fsync_folder(folder.parent)
    except OSError as error:
        raise StoreError(
            f"{layout.root}: {error.strerror}, expected a folder to write in; check its rights and its disk"
        ) from error


def delete_orphans(layout: Layout, writer: str, journal: Journal, hook: Hook) -> None:
    """Deletes the writer's files that the catalogue does not name: what a crash left half done."""
    with journal.transaction() as db:
        named = {name for (name,) in db.execute("SELECT name FROM segments UNION SELECT name FROM retired")}
    for path in orphans(layout, writer, named):
        path.unlink()
        hook("orphan_deleted")
        fsync_folder(path.parent)
    hook("repaired")


def orphans(layout: Layout, writer: str, named: set[str]) -> list[Path]:
    """The writer's segment files, finished or not, that are not among the named."""
    found: list[Path] = []
    for path in sorted(layout.segments.glob("*/*")):
        parsed = SegmentName.parse(path.name.removesuffix(".tmp"))
        if parsed is not None and parsed.writer == writer and path.name not in named:
            found.append(path)
    return found
