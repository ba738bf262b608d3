"""Whether a file still holds what was read of it: a log may grow at its end, and nothing else may become of it."""

from pathlib import Path
from typing import NamedTuple

_SEEN_BYTES = 4 * 1024
"""Read at each of the places that are compared."""
_PLACES = 16
"""From the first byte to the last, evenly."""


class FileMark(NamedTuple):
    """A file as it was when it was opened."""

    inode: int
    size: int
    changed_ns: int
    seen: bytes
    """What stood at some places of it."""

    @classmethod
    def of(cls, file: Path) -> "FileMark":
        """As it is now."""
        now = file.stat()
        return cls(now.st_ino, now.st_size, now.st_mtime_ns, _seen(file, now.st_size))

    def why_another(self, file: Path) -> str | None:
        """What became of the file, in words; None where it is the same, or has grown at its end.

        Of one that was written to since, what it had at some places is compared: a change between them is not noticed.
        """
        now = file.stat()
        if now.st_ino != self.inode:
            return "another file now"
        if now.st_size < self.size:
            return f"{self.size} bytes, now {now.st_size}"
        if now.st_mtime_ns == self.changed_ns and now.st_size == self.size:
            return None
        return None if _seen(file, self.size) == self.seen else "other bytes where it was read"


def _seen(file: Path, size: int) -> bytes:
    last = max(0, size - _SEEN_BYTES)
    with file.open("rb") as opened:
        pieces: list[bytes] = []
        for place in range(_PLACES):
            opened.seek(last * place // (_PLACES - 1))
            pieces.append(opened.read(min(size, _SEEN_BYTES)))
    return b"".join(pieces)
