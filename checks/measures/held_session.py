"""All ids of one session, those that turns share held once, and which earlier turn a suspect one continues."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from checks.measures.dialogue import Dialogue, continued_by_messages
from checks.measures.token_grams import GRAM, GramSet, contains, grams
from checks.ragged import Array

SHARE = 0.5
"""Least share of an earlier prompt's 6-grams that has to reappear in a prompt that continues it."""
_ONE_BY_ONE = 16
"""Turns whose 6-grams are looked for one turn at a time, before those of the whole session are."""
_TIES = 32
"""Turns looked at where several have an equally long prefix in common; the newest ones."""


class HeldTurn:
    """One turn of a session: its own ids after those of its parent."""

    __slots__ = (
        "_grams",
        "dialogue",
        "failed",
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
        dialogue: Dialogue | None,
    ) -> None:
        self.place = place
        """0-based among the session's turns, by number."""
        self.number = number
        self.parent = parent
        self.start = 0 if parent is None else parent.tokens
        self.own = np.concatenate([prompt[self.start :], completion])
        self.prompt_tokens, self.tokens = len(prompt), len(prompt) + len(completion)
        self.failed, self.suspect, self.dialogue = failed, suspect, dialogue
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


class Continued(NamedTuple):
    """What a suspect turn goes on from."""

    previous: HeldTurn | None
    """The turn that it continues without extending it; None for a new root, or a branch of its parent."""
    nearest: HeldTurn | None
    """The turn with the longest common prefix: what a declared compaction replaced."""


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


def continuations(turns: Sequence[HeldTurn]) -> Iterator[tuple[HeldTurn, Continued]]:
    """Each suspect turn of a session, and what it goes on from."""
    session = SessionGrams(turns)
    for turn in turns:
        if turn.suspect:
            overlap = Overlap(turn.prompt(), session, turn.place)
            yield turn, _continued(turn, overlap, [each for each in turns[: turn.place] if not each.failed])


def _continued(turn: HeldTurn, overlap: Overlap, whole: Sequence[HeldTurn]) -> Continued:
    # A prompt that ends before it differs takes an earlier state up again.
    pool = [each for each in whole if overlap.common(each) < turn.prompt_tokens]
    if turn.parent is not None:
        pool = [each for each in pool if each is not turn.parent and turn.parent in each.line()]
    told = continued_by_messages(turn.dialogue, [each.dialogue for each in pool])
    pool = [pool[place] for place in told.places]
    if told.known:
        chosen = _of_most(overlap, pool)
    elif turn.parent is None:
        gone_on = {id(each.parent) for each in whole}
        chosen = _by_share(overlap, [each for each in pool if id(each) not in gone_on])
    else:
        chosen = _by_reply(overlap, turn.parent.tokens, pool)
    return Continued(chosen, _nearest(overlap, whole))


def _of_most(overlap: Overlap, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    """Of turns that fit equally well, the one most of which reappears."""
    if len(turns) <= 1:
        return turns[0] if turns else None
    return max(
        turns,
        key=lambda each: (overlap.common(each), overlap.in_prompt(each), overlap.in_completion(each), each.place),
    )


def _by_share(overlap: Overlap, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    """The turn of whose prompt at least half reappears, and of those the one of which most does.

    Turns that were gone on from are not among those given: half of the first prompt of a line comes back in whatever
    has its system prompt, and the line itself went on elsewhere.
    """
    best: list[HeldTurn] = []
    most = 0
    for turn in sorted(turns, key=lambda each: each.prompt_tokens, reverse=True):
        if max(0, turn.prompt_tokens - GRAM + 1) < most:
            break
        if overlap.share(turn) >= SHARE and (found := overlap.in_prompt(turn)) >= most:
            best = [*best, turn] if found == most else [turn]
            most = found
    return _of_most(overlap, best)


def _by_reply(overlap: Overlap, shared: int, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    """The deepest turn that the prompt goes on from although it extends an earlier one: its reply is in it, rewritten.

    Either the prompt begins with that turn's whole prompt and goes on with another completion, or at least half of
    the completion's 6-grams reappear after what is extended.
    """
    after = GramSet(grams(overlap.prompt[max(0, shared - GRAM + 1) :]))
    for turn in sorted(turns, key=lambda each: (each.prompt_tokens, each.place), reverse=True):
        of_reply = turn.grams()[turn.grams_of_prompt :]
        begins = turn.prompt_tokens <= overlap.common(turn)
        if begins or (len(of_reply) and after.holds(of_reply).mean() >= SHARE):
            return turn
    return None


def _nearest(overlap: Overlap, turns: Sequence[HeldTurn]) -> HeldTurn | None:
    longest = max((overlap.common(turn) for turn in turns), default=0)
    ties = [turn for turn in turns if overlap.common(turn) == longest][-_TIES:]
    return (
        ties[0] if len(ties) == 1 else max(ties, key=lambda each: (overlap.in_prompt(each), each.place), default=None)
    )


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
