"""Whether a store's files were touched since they were read last; costs a few microseconds."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from collector.errors import StoreError
from collector.store.layout import Layout
from collector.store.registry_schema import FILE_NAME

_SETTLED_S = 0.1
"""A file that was touched this recently may be touched again within one tick of its clock."""
_REGISTRY = (FILE_NAME, f"{FILE_NAME}-wal")


class FileStamp(NamedTuple):
    """What tells that a file is another than before."""

    inode: int
    size: int
    changed_ns: int


class StoreStamp(NamedTuple):
    """Of every file that what is held of a store depends on, by name."""

    files: dict[str, FileStamp]
    unsettled: frozenset[str]
    """Files that may be touched without another stamp: they count as touched once more."""

    @property
    def written_at(self) -> datetime:
        """When one of them was written last, by the clock of the disk."""
        newest_ns = max((stamp.changed_ns for stamp in self.files.values()), default=0)
        return datetime.fromtimestamp(newest_ns / 1e9, UTC)

    def touched(self, before: "StoreStamp") -> set[str]:
        """Files that are not as before."""
        changed = {name for name, stamp in self.files.items() if before.files.get(name) != stamp}
        return changed | (before.files.keys() - self.files.keys()) | before.unsettled

    def replaced(self, before: "StoreStamp") -> bool:
        """Whether a journal is another file than before."""
        journals = [name for name in self.files if name.endswith(".sqlite") and name in before.files]
        return any(self.files[name].inode != before.files[name].inode for name in journals)


def of_registry(names: set[str]) -> bool:
    """Whether the registry is among touched files."""
    return not names.isdisjoint(_REGISTRY)


def writers_of(names: set[str]) -> set[str]:
    """The writers whose journals are among touched files."""
    return {name.partition(".")[0] for name in names if name not in _REGISTRY}


def store_stamp(store: Path) -> StoreStamp:
    """As the files are now; StoreError when there is no store."""
    files: dict[str, FileStamp] = {}
    try:
        with os.scandir(Layout(store).journals) as entries:
            for entry in entries:
                # A reader makes and touches -shm, and a lock says nothing of what was written.
                if entry.name.endswith((".sqlite", ".sqlite-wal", ".mark")):
                    files[entry.name] = _stamp(entry.path)
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}, expected a store; is it still there?") from error
    for name in _REGISTRY:
        stamp = _stamp(f"{store}/{name}")
        if stamp.inode:
            files[name] = stamp
    since = time.time_ns() - int(_SETTLED_S * 1e9)
    return StoreStamp(files, frozenset(name for name, stamp in files.items() if stamp.changed_ns > since))


def _stamp(path: str) -> FileStamp:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        # A write-ahead log goes when its last writer closes.
        return FileStamp(0, 0, 0)
    return FileStamp(found.st_ino, found.st_size, found.st_mtime_ns)
