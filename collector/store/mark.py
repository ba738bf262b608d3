"""The acknowledged high-water mark of a journal: a lost tail is noticed by it."""

import os
import struct
import zlib
from pathlib import Path

from collector.store.layout import fsync_folder

_MARK = struct.Struct("<QI")
_MARK_SLOT_BYTES = 512


class Mark:
    """The acknowledged high-water mark: two checksummed slots, written in turn, so that a torn write loses nothing."""

    def __init__(self, path: Path) -> None:
        existed = path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._slot = 0
        if not existed or os.fstat(self._file).st_size < 2 * _MARK_SLOT_BYTES:
            os.pwrite(self._file, bytes(2 * _MARK_SLOT_BYTES), 0)
            os.fsync(self._file)
            fsync_folder(path.parent)

    def write(self, seq: int) -> None:
        """Makes it durable that every record up to seq was acknowledged."""
        packed = struct.pack("<Q", seq)
        os.pwrite(self._file, packed + struct.pack("<I", zlib.crc32(packed)), self._slot * _MARK_SLOT_BYTES)
        os.fdatasync(self._file)
        self._slot = 1 - self._slot

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def read_mark(path: Path) -> int | None:
    """The acknowledged high-water mark; None when no slot of the file is whole."""
    content = path.read_bytes() if path.exists() else b""
    seqs: list[int] = []
    for start in (0, _MARK_SLOT_BYTES):
        slot = content[start : start + _MARK.size]
        if len(slot) == _MARK.size and slot != bytes(_MARK.size):
            seq, crc = _MARK.unpack(slot)
            if zlib.crc32(slot[:8]) == crc:
                seqs.append(seq)
    if not seqs and content == bytes(len(content)) and content:
        return 0
    return max(seqs, default=None)
