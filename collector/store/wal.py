"""A write-ahead log read by hand: the page images of a damaged one, laid over the database that it belongs to.

The format is that of https://www.sqlite.org/fileformat2.html#the_write_ahead_log: a 32-byte header, then frames of
a 24-byte header and one page. SQLite itself stops at the first frame whose checksum fails; the frames after it are
as good as they were, and records carry a crc32 of their own.
"""

import struct
from collections import Counter

from collector.store.journal import PAGE_BYTES

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")


def overlaid(database: bytes, log: bytes) -> bytes | None:
    """The database with every frame of the log up to its last commit; None when the log holds no commit."""
    starts = range(_HEADER.size, len(log) - _FRAME.size - PAGE_BYTES + 1, _FRAME.size + PAGE_BYTES)
    salts = _salts(log, starts)
    frames: list[tuple[int, int]] = []
    commit, pages = 0, 0
    for start in starts:
        page, size_after, salt1, salt2, _, _ = _FRAME.unpack_from(log, start)
        if (salt1, salt2) == salts:
            frames.append((page, start + _FRAME.size))
            if size_after:
                commit, pages = len(frames), size_after
    if not commit or pages > (len(database) + len(log)) // PAGE_BYTES:
        return None
    image = bytearray(database[: pages * PAGE_BYTES].ljust(pages * PAGE_BYTES, b"\0"))
    for page, start in frames[:commit]:
        if 1 <= page <= pages:
            image[(page - 1) * PAGE_BYTES : page * PAGE_BYTES] = log[start : start + PAGE_BYTES]
    return bytes(image)


def _salts(log: bytes, starts: range) -> tuple[int, int] | None:
    """What marks the frames of this run of the log; its header and its first frame tell, and one may be damaged."""
    if not starts:
        return None
    told = [_HEADER.unpack_from(log)[4:6], _FRAME.unpack_from(log, starts[0])[2:4]]
    found = Counter(_FRAME.unpack_from(log, start)[2:4] for start in starts)
    return max(told, key=lambda salts: found[salts])
