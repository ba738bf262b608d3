"""Who evaluates the alerts of a store now: told from the lock of the evaluator's journal."""

import os
from pathlib import Path

from collector.store.layout import Layout
from collector.store.writer_lock import has_writer
from console.check_watch.store_watch import WRITER

_MOUNTS = Path("/proc/self/mountinfo")
_OWN_LOCKS = ("9p", "virtiofs", "vboxsf", "fuse")
"""File systems on which a machine does not see another one's locks."""


def evaluator_running(store: Path) -> bool | None:
    """Whether a process holds the evaluator's journal; None where that cannot be told."""
    journals = Layout(store).journal(WRITER).parent
    if not journals.is_dir():
        return None
    held = has_writer(Layout(store), WRITER)
    return None if held is False and _locked_elsewhere_unseen(journals) else held


def _locked_elsewhere_unseen(folder: Path) -> bool:
    try:
        return locks_stay_here(_MOUNTS.read_text(), folder.stat().st_dev)
    except OSError:
        return False


def locks_stay_here(mounts: str, device: int) -> bool:
    """Whether the file system on a device, as /proc/self/mountinfo lists it, keeps its locks from other machines.

    A line is `36 35 98:0 / /store rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue`.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        mount, _, system = line.partition(" - ")
        if mount.split()[2:3] == [number]:
            kind, _, options = system.split(" ", 2)
            local = any(each.startswith("local_lock=") and each != "local_lock=none" for each in options.split(","))
            return local or kind.partition(".")[0] in _OWN_LOCKS or "nolock" in options.split(",")
    return False
