"""Who evaluates the alerts of a store now: told from the lock of the evaluator's journal, without taking it."""

import os
from pathlib import Path

from collector.store.layout import Layout
from console.check_watch.store_watch import WRITER

_LOCKS = Path("/proc/locks")


def evaluator_running(store: Path) -> bool | None:
    """Whether a process holds the evaluator's journal; None where that cannot be told.

    The kernel's own list of locks says it exactly. Without one, or for a store on another machine's disk, a process
    with the noted number is no proof, so only its absence is believed.
    """
    path = Layout(store).lock(WRITER)
    try:
        found = path.stat()
        noted = path.read_text().strip()
    except OSError:
        return False if Layout(store).journal(WRITER).parent.is_dir() else None
    try:
        locks = _LOCKS.read_text()
    except OSError:
        return None if noted.isdigit() and _alive(int(noted)) else False
    return any(_of(line, found) for line in locks.splitlines())


def _of(line: str, found: os.stat_result) -> bool:
    """Whether a line of /proc/locks is an flock of that file: `1: FLOCK ADVISORY WRITE pid major:minor:inode 0 EOF`."""
    words = line.split()
    place = next((word for word in words if word.count(":") == 2), "")
    if "FLOCK" not in words or "->" in words or not place:
        return False
    major, minor, inode = place.split(":")
    device = (int(major, 16), int(minor, 16))
    return int(inode) == found.st_ino and device == (os.major(found.st_dev), os.minor(found.st_dev))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
