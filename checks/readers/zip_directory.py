"""Where the entries of a zip lie in its bytes: those that are stored as they are, as torch.save stores them."""

import struct
from typing import NamedTuple

from checks.readers.pickle_values import RefusedPickle

_END = b"PK\x05\x06"
_END_RECORD = struct.Struct("<4s4H2LH")
_END64_RECORD = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_COMMENT_LIMIT = 65_535
_WIDE = 0xFFFFFFFF


class _Entry(NamedTuple):
    method: int
    packed: int
    size: int
    start: int


class ZipDirectory:
    """The entries of a zip by name, without their first folder."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._entries: dict[str, _Entry] = {}
        try:
            self._read()
        except struct.error:
            raise RefusedPickle("a zip whose directory is broken or cut off") from None

    def _read(self) -> None:
        count, position = self._directory()
        for _ in range(count):
            fields = _ENTRY.unpack_from(self._buffer, position)
            if fields[0] != b"PK\x01\x02":
                raise RefusedPickle(f"a zip whose directory has no entry at byte {position}")
            name_size, extra_size, comment_size = fields[10:13]
            begin = position + _ENTRY.size
            name = bytes(self._buffer[begin : begin + name_size]).decode("utf-8", "replace")
            extra = bytes(self._buffer[begin + name_size : begin + name_size + extra_size])
            self._entries[name.partition("/")[2]] = _widened(_Entry(fields[4], fields[8], fields[9], fields[16]), extra)
            position = begin + name_size + extra_size + comment_size

    def _directory(self) -> tuple[int, int]:
        """How many entries there are, and where the first begins."""
        tail_start = max(0, len(self._buffer) - _COMMENT_LIMIT - _END_RECORD.size)
        found = bytes(self._buffer[tail_start:]).rfind(_END)
        if found < 0:
            raise RefusedPickle("a zip without its directory: it was cut off, or is still being written")
        end = tail_start + found
        _, _, _, _, count, _, start, _ = _END_RECORD.unpack_from(self._buffer, end)
        if count == 0xFFFF or start == _WIDE:
            signature, _, place, _ = struct.unpack_from("<4sLQL", self._buffer, end - 20)
            if signature != b"PK\x06\x07":
                raise RefusedPickle("a zip whose large directory is not where it says")
            wide = _END64_RECORD.unpack_from(self._buffer, place)
            count, start = wide[7], wide[9]
        if count > len(self._buffer) // _ENTRY.size:
            raise RefusedPickle(f"a zip of {len(self._buffer)} bytes that claims {count} entries")
        return count, start

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def bytes_of(self, name: str) -> memoryview:
        """The bytes of an entry, not copied; RefusedPickle where they are compressed or not all there."""
        entry = self._entries.get(name)
        if entry is None:
            raise RefusedPickle(f"a zip without an entry {name[:60]!r}")
        if entry.method or entry.packed != entry.size:
            raise RefusedPickle(f"entry {name[:60]!r} is compressed; torch.save stores entries as they are")
        try:
            local = _LOCAL.unpack_from(self._buffer, entry.start)
        except struct.error:
            raise RefusedPickle(f"entry {name[:60]!r} begins beyond the end of the file") from None
        begin = entry.start + _LOCAL.size + local[9] + local[10]
        if local[0] != b"PK\x03\x04" or begin + entry.size > len(self._buffer):
            raise RefusedPickle(f"entry {name[:60]!r} of {entry.size} bytes is not all there")
        return self._buffer[begin : begin + entry.size]


def _widened(entry: _Entry, extra: bytes) -> _Entry:
    """Sizes and place from the zip64 field where the plain ones are full."""
    position = 0
    while position + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, position)
        if kind == 1:
            wide = list(struct.unpack_from(f"<{size // 8}Q", extra, position + 4))
            values = [
                wide.pop(0) if plain == _WIDE and wide else plain for plain in (entry.size, entry.packed, entry.start)
            ]
            return _Entry(entry.method, values[1], values[0], values[2])
        position += 4 + size
    return entry
