"""Files under experts/ that no turn names: found by a verification, and set aside where nobody writes them."""

import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from collector.errors import StoreError
from collector.store.expert_files import EXPIRED
from collector.store.health import Fault
from collector.store.layout import Layout, fsync_folder
from collector.store.reader import Reader
from collector.store.writer_lock import LockHeld, WriterLock

_SETTLED_S = 60.0
"""A file that is younger may be of a turn that is being recorded."""
_FOUND, _EXPECTED = "a file of no turn", "expert routes of this store's turns"
_MOVED = "it is moved to quarantine/"
_BUSY = "stop the writer and run verify again to set it aside"
_READ_ONLY = "run verify where the store can be written to set it aside"


def stray_routes(layout: Layout) -> list[Fault]:
    """What a crash left between file and record, or somebody put there. Where no writer runs it is moved away."""
    faults: list[Fault] = []
    owners = {path.relative_to(layout.experts).parts[0] for path in _settled(layout)}
    for owner in sorted(owners):
        moved, left, action = list[Path](), list[Path](), _MOVED
        try:
            with _alone(layout, owner):
                for path in _set_aside(layout, owner, _strays(layout, owner)):
                    moved.append(path)
        except LockHeld:
            left, action = _strays(layout, owner), _BUSY
        except (StoreError, OSError):
            left, action = _strays(layout, owner), _READ_ONLY
        for paths, done in ((moved, _MOVED), (left, action)):
            faults += [Fault(str(path.relative_to(layout.root)), _FOUND, _EXPECTED, done) for path in paths]
    return faults


@contextmanager
def _alone(layout: Layout, owner: str) -> Generator[None]:
    """Nobody else writes files of a writer meanwhile; where there is no journal of that name nobody does."""
    if owner not in layout.writers():
        yield
        return
    lock = WriterLock(layout, owner)
    try:
        yield
    finally:
        lock.release()


def _settled(layout: Layout) -> list[Path]:
    """All files but those that are kept for something else than a turn, or may be about to be named."""
    before = time.time() - _SETTLED_S
    found: list[Path] = []
    # What a writer deletes meanwhile is passed over, whole folders too.
    for folder, folders, files in os.walk(layout.experts):
        found += [path for name in (*files, *folders) if _is_old_file(path := Path(folder, name), before)]
    return sorted(path for path in found if path.name != EXPIRED or path.parent.parent != layout.experts)


def _is_old_file(path: Path, before: float) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return not stat.S_ISDIR(status.st_mode) and status.st_mtime < before


def _strays(layout: Layout, owner: str) -> list[Path]:
    """A writer's settled files that no turn names; none where turns may be lost that did."""
    files = [path for path in _settled(layout) if path.relative_to(layout.experts).parts[0] == owner]
    try:
        with Reader(layout.root).snapshot(["turns"]) as snapshot:
            named = snapshot.frame("turns", columns=["routed_experts"])["routed_experts"].drop_nulls()
            if snapshot.damage:
                return []
    except StoreError:
        # It is reported by itself.
        return []
    known = set(named)
    return [path for path in files if str(path.relative_to(layout.root)) not in known and os.path.lexists(path)]


def _set_aside(layout: Layout, owner: str, strays: list[Path]) -> Generator[Path]:
    """Moves files to quarantine, and tells each that is there."""
    if not strays:
        return
    kept_at = layout.new_quarantine(owner)
    for path in strays:
        target = kept_at / path.relative_to(layout.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        yield path
        fsync_folder(path.parent)
        fsync_folder(target.parent)
    fsync_folder(kept_at)
