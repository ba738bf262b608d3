"""Which sessions the store has, of all that there ever were: in 16 bytes each, so that those of years fit."""

import hashlib

_DIGEST_BYTES = 16
_PARTS = 4096


class StoredSessions:
    """A set of session ids that knows them by their digests, side by side in parts that are searched whole."""

    def __init__(self) -> None:
        self._parts = [bytearray() for _ in range(_PARTS)]

    def add(self, session_id: str) -> None:
        """Remembers that the store has turns of it."""
        part, digest = self._part(session_id)
        if _place(part, digest) is None:
            part += digest

    def discard(self, session_id: str) -> None:
        """Forgets it; nothing happens where it is not known."""
        part, digest = self._part(session_id)
        place = _place(part, digest)
        if place is not None:
            del part[place : place + _DIGEST_BYTES]

    def __contains__(self, session_id: str) -> bool:
        part, digest = self._part(session_id)
        return _place(part, digest) is not None

    def __len__(self) -> int:
        return sum(map(len, self._parts)) // _DIGEST_BYTES

    def _part(self, session_id: str) -> tuple[bytearray, bytes]:
        digest = hashlib.blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
        return self._parts[int.from_bytes(digest[:2]) % _PARTS], digest


def _place(part: bytearray, digest: bytes) -> int | None:
    """Where a digest begins; one may also be found across the border of two others."""
    place = part.find(digest)
    while place % _DIGEST_BYTES and place != -1:
        place = part.find(digest, place + 1)
    return None if place == -1 else place
