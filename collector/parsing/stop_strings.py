"""Cuts a streamed text at the stop string that is complete first and holds back what might become one."""

from collections.abc import Sequence


def held_suffix(text: str, words: Sequence[str]) -> int:
    """Length of the longest end of `text` that begins one of the words."""
    longest = 0
    for word in words:
        for size in range(min(len(word) - 1, len(text)), longest, -1):
            if text.endswith(word[:size]):
                longest = size
                break
    return longest


class StopStrings:
    """The text before the stop string that is complete first, as soon as it is certain."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(word for word in words if word)
        self._pending = ""
        self.matched: str | None = None
        """The stop string that was met."""

    @property
    def none(self) -> bool:
        """Whether there is none to look for."""
        return not self._words

    def add(self, text: str) -> str:
        """The part of the text that no stop string can take back."""
        if self.matched is not None:
            return ""
        if not self._words:
            return text
        self._pending += text
        places = [(place, word) for word in self._words if (place := self._pending.find(word)) >= 0]
        if places:
            # The one that was complete first, as an engine that looks after every token finds it.
            place, self.matched = min(places, key=lambda found: (found[0] + len(found[1]), found[0]))
            shown, self._pending = self._pending[:place], ""
            return shown
        keep = held_suffix(self._pending, self._words)
        shown, self._pending = self._pending[: len(self._pending) - keep], self._pending[len(self._pending) - keep :]
        return shown

    def finish(self) -> str:
        """What was held back after all."""
        shown, self._pending = self._pending, ""
        return shown
