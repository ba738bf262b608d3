"""What a prompt has in common with earlier turns of its session: prefixes, and 6-grams that reappear."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from checks.measures.held_turn import HeldTurn, common_prefix
from checks.measures.token_grams import GRAM, GramSet, contains, grams
from checks.ragged import Array

_ONE_BY_ONE = 16
"""Turns whose 6-grams are looked for one turn at a time, before those of the whole session are."""


class SessionGrams:
    """The 6-grams of all turns of a session, one after the other."""

    def __init__(self, turns: Sequence[HeldTurn]) -> None:
        self._turns = turns

    @cached_property
    def ends(self) -> Array:
        """Where each turn's end; one more, for the beginning, before them."""
        return np.concatenate([[0], np.cumsum([len(turn.grams()) for turn in self._turns])])

    @cached_property
    def numbers(self) -> Array:
        """All of them."""
        numbers = np.concatenate([turn.grams() for turn in self._turns])
        for turn in self._turns:
            turn.share_grams(numbers[self.ends[turn.place] : self.ends[turn.place + 1]])
        return numbers

    @cached_property
    def splits(self) -> Array:
        """Where each turn's prompt ends among them."""
        return self.ends[:-1] + np.array([min(turn.grams_of_prompt, len(turn.grams())) for turn in self._turns])


class Overlap:
    """What one prompt has in common with earlier turns."""

    def __init__(self, prompt: Array, session: SessionGrams, place: int) -> None:
        self.prompt = prompt
        self._session, self._place = session, place
        self._common: dict[int, int] = {}
        self._found: dict[int, tuple[int, int]] = {}
        self._own: tuple[list[int], list[int]] | None = None

    @cached_property
    def _grams(self) -> GramSet:
        return GramSet(grams(self.prompt))

    def common(self, turn: HeldTurn) -> int:
        """Length of the common prefix with a turn's prompt and completion."""
        for each in _unknown(turn, self._common):
            above = each.start if each.parent is None else self._common[each.parent.place]
            own = common_prefix(each.own, self.prompt[each.start :]) if above == each.start else 0
            self._common[each.place] = above + own
        return self._common[turn.place]

    def _hits(self, turn: HeldTurn) -> tuple[int, int]:
        for each in _unknown(turn, self._found):
            above = 0 if each.parent is None else sum(self._found[each.parent.place])
            in_prompt, in_completion = self._own_hits(each)
            self._found[each.place] = (above + in_prompt, in_completion)
        return self._found[turn.place]

    def _own_hits(self, turn: HeldTurn) -> tuple[int, int]:
        """How many 6-grams that end in the turn's own ids reappear: one by one at first, then of all turns at once."""
        if self._own is None and len(self._found) < _ONE_BY_ONE:
            hits = self._grams.holds(turn.grams())
            in_prompt = int(hits[: turn.grams_of_prompt].sum())
            return in_prompt, int(hits.sum()) - in_prompt
        if self._own is None:
            ends, splits = self._session.ends[: self._place + 1], self._session.splits[: self._place]
            hits = self._grams.holds(self._session.numbers[: ends[-1]])
            until = np.concatenate([[0], np.cumsum(hits, dtype=np.int32)])
            self._own = (
                (until[splits] - until[ends[:-1]]).tolist(),
                (until[ends[1:]] - until[splits]).tolist(),
            )
        return self._own[0][turn.place], self._own[1][turn.place]

    def in_prompt(self, turn: HeldTurn) -> int:
        """How many 6-grams of the turn's prompt reappear."""
        if self.common(turn) >= turn.prompt_tokens:
            return max(0, turn.prompt_tokens - GRAM + 1)
        return self._hits(turn)[0]

    def in_completion(self, turn: HeldTurn) -> int:
        """How many 6-grams that end in the turn's completion reappear."""
        return self._hits(turn)[1]

    def share(self, turn: HeldTurn) -> float:
        """The share of the 6-grams of the turn's prompt that reappears; a shorter prompt is one gram."""
        if turn.prompt_tokens < GRAM:
            return float(turn.prompt_tokens > 0 and contains(self.prompt, turn.prompt()))
        return self.in_prompt(turn) / (turn.prompt_tokens - GRAM + 1)


def _unknown(turn: HeldTurn, known: Mapping[int, object]) -> list[HeldTurn]:
    """The turn and those above it that are not known yet, from the top."""
    line: list[HeldTurn] = []
    for each in turn.line():
        if each.place in known:
            break
        line.append(each)
    return line[::-1]
