"""Whether a file still holds what was read of it: a log may grow at its end, and nothing else may become of it."""

from pathlib import Path
from typing import NamedTuple

_SEEN_BYTES = 4 * 1024
"""Of the beginning, and of the end of what was there, that are compared when a file has grown."""


class FileMark(NamedTuple):
    """A file as it was when it was opened."""

    inode: int
    size: int
    changed_ns: int
    ends: bytes
    """Its first bytes and its last ones."""

    @classmethod
    def of(cls, file: Path) -> "FileMark":
        """As it is now."""
        now = file.stat()
        return cls(now.st_ino, now.st_size, now.st_mtime_ns, _ends(file, now.st_size))

    def why_another(self, file: Path) -> str | None:
        """What became of the file, in words; None where it is the same, or has grown at its end.

        Of one that has grown its beginning and the last bytes that it had are compared: a change between them is not
        noticed then. One that has not grown must not have been written to at all.
        """
        now = file.stat()
        if now.st_ino != self.inode:
            return "another file now"
        if now.st_size < self.size:
            return f"{self.size} bytes, now {now.st_size}"
        if now.st_mtime_ns == self.changed_ns and now.st_size == self.size:
            return None
        if now.st_size == self.size:
            return "written over in place"
        return None if _ends(file, self.size) == self.ends else "other bytes where it was read"


def _ends(file: Path, size: int) -> bytes:
    with file.open("rb") as opened:
        first = opened.read(min(size, _SEEN_BYTES))
        opened.seek(max(0, size - _SEEN_BYTES))
        return first + opened.read(min(size, _SEEN_BYTES))
