"""What of a log could not be read: counted, the first pieces named, and never a reason to stop."""

from checks.log import Unreadable

_NAMED = 20


class UnreadableParts:
    """Counts the pieces of one log that could not be read."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Unreadable] = []

    def add(self, place: str, reason: str) -> None:
        """One more piece; `reason` says what was found and what was expected."""
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(Unreadable(place=place, reason=reason))
