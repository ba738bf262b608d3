"""The kernel's notice that a file in some folders was written, so that nobody has to look while nothing is."""

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

_WRITTEN = 0x2 | 0x40 | 0x80 | 0x100 | 0x200
"""IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE."""
_CHUNK = 1 << 16


class FolderNotices:
    """Watches folders where the system can; a network's disk or another system gives none."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._descriptor = _watching(folders)

    @property
    def descriptor(self) -> int | None:
        """Readable once something was written; None where no notice comes."""
        return self._descriptor

    def taken(self) -> bool:
        """Whether something was written since the last call; never waits."""
        if self._descriptor is None:
            return False
        found = False
        try:
            while os.read(self._descriptor, _CHUNK):
                found = True
        except BlockingIOError:
            pass
        return found

    def close(self) -> None:
        """Ends it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


def _watching(folders: Sequence[Path]) -> int | None:
    """A descriptor that watches all of them, or None."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        return None
    descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        return None
    for folder in folders:
        if library.inotify_add_watch(descriptor, os.fsencode(folder), _WRITTEN) < 0:
            os.close(descriptor)
            return None
    return descriptor
