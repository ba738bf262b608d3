"""What of a log could not be read: counted, the first pieces named, and never a reason to stop."""

from checks.log import Unreadable

_NAMED = 20
_LONGEST = 500
"""Characters of a reason: a library may put the whole of what it found into it."""


class UnreadableParts:
    """Counts the pieces of one log that could not be read, and how far its lines were."""

    def __init__(self) -> None:
        self.passed_bytes = 0
        """Of lines, read or not, as they are when nothing is compressed any more."""
        self.count = 0
        self.first: list[Unreadable] = []

    def add(self, place: str, reason: str) -> None:
        """One more piece; `reason` says what was found and what was expected."""
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(Unreadable(place=_one_line(place), reason=_one_line(reason)))


def _one_line(text: str) -> str:
    """Text that can be shown: on one line, not endless, and without halves of characters (file names have those)."""
    return " ".join(text[:_LONGEST].encode("utf-8", "replace").decode().split())
