"""A turn with all its ids, those it shares with its parent held once."""

from collections.abc import Iterator

import numpy as np

from checks.measures.token_grams import GRAM, grams
from checks.measures.turn_messages import TurnMessages
from checks.ragged import Array


class HeldTurn:
    """One turn of a session: its own ids after those of its parent."""

    __slots__ = (
        "_grams",
        "failed",
        "messages",
        "number",
        "own",
        "parent",
        "place",
        "prompt_tokens",
        "start",
        "suspect",
        "tokens",
    )

    def __init__(
        self,
        *,
        place: int,
        number: int,
        parent: "HeldTurn | None",
        prompt: Array,
        completion: Array,
        failed: bool,
        suspect: bool,
        messages: TurnMessages | None,
    ) -> None:
        self.place = place
        """0-based among the session's turns, by number."""
        self.number = number
        self.parent = parent
        self.start = 0 if parent is None else parent.tokens
        self.own = np.concatenate([prompt[self.start :], completion])
        self.prompt_tokens, self.tokens = len(prompt), len(prompt) + len(completion)
        self.failed, self.suspect, self.messages = failed, suspect, messages
        self._grams: Array | None = None

    def ids(self) -> Array:
        """Prompt and completion."""
        return np.concatenate([turn.own for turn in reversed(list(self.line()))])

    def prompt(self) -> Array:
        """The prompt's ids."""
        return self.ids()[: self.prompt_tokens]

    def line(self) -> "Iterator[HeldTurn]":
        """The turn, its parent, and so on to the root."""
        turn: HeldTurn | None = self
        while turn is not None:
            yield turn
            turn = turn.parent

    def grams(self) -> Array:
        """The 6-grams that end in its own ids."""
        if self._grams is None:
            before: list[Array] = []
            wanted = GRAM - 1
            for turn in self.line():
                if turn is not self and wanted > 0:
                    before.append(turn.own[-wanted:])
                    wanted -= len(before[-1])
            self._grams = grams(np.concatenate([*reversed(before), self.own]))
        return self._grams

    @property
    def grams_of_prompt(self) -> int:
        """How many of its own 6-grams end in the prompt."""
        return max(0, self.prompt_tokens - max(self.start, GRAM - 1))

    def share_grams(self, numbers: Array) -> None:
        """Takes its 6-grams from where they are held with those of others."""
        self._grams = numbers


def common_prefix(one: Array, other: Array) -> int:
    """How many elements two arrays have in common at their start."""
    length = min(len(one), len(other))
    start, step = 0, 64
    while start < length:
        end = min(length, start + step)
        differs = one[start:end] != other[start:end]
        if differs.any():
            return start + int(differs.argmax())
        start, step = end, step * 8
    return length
