"""Which turn each turn of a log extends, told from hashes of ids: a few dozen bytes a turn, whatever its length."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xxhash

FAILED, SUSPECT, CONTINUED = 1, 2, 4
"""Flags of a turn: nobody continues it; it has to be looked at with all ids; some whole turn extends it."""
NONE = -1
_WALKED = 48
"""Turns of a session from which on its lengths are looked up in an index instead of walked through."""
_ID_BYTES = 4


class Candidate(NamedTuple):
    """An earlier turn whose prompt, or prompt and completion, may begin the prompt at hand."""

    length: int
    turn: int


class TurnChains:
    """Turns in the order in which they are added, each with its parent and whether it is suspect.

    A parent is the deepest earlier turn of the session whose prompt and completion begin the turn's prompt. A turn
    with the prompt of an earlier one is its sibling: it has the same parent and is not suspect. Any other turn of a
    session is suspect if it has no parent, or if its parent was continued by another turn before.
    """

    def __init__(self, *, walked: int = _WALKED) -> None:
        self._walked = walked
        self.prompt_tokens, self.tokens = array("i"), array("i")
        self.parent, self.session, self.flags = array("q"), array("i"), array("b")
        self._prompt_hash, self._hash = array("Q"), array("Q")
        self._previous, self._last_id = array("q"), array("i")
        self.first, self.last, self.turns = array("q"), array("q"), array("i")
        """By session: its first and its last turn added, and how many."""
        self._deepest = array("i")
        self._whole = array("i")
        self._indexes: dict[int, _Lengths] = {}

    def __len__(self) -> int:
        return len(self.parent)

    def begin_session(self) -> int:
        """A new session's number."""
        for by_session in (self.first, self.last):
            by_session.append(NONE)
        for by_session in (self.turns, self._deepest, self._whole):
            by_session.append(0)
        return len(self.first) - 1

    def add(self, session: int, prompt: memoryview, completion: memoryview, *, failed: bool) -> int:
        """The turn's number. Ids as bytes of int32."""
        whole = xxhash.xxh3_64()
        parent, suspect = NONE, False
        last = self.last[session]
        if last != NONE:
            held = self.tokens[last]
            done = held * _ID_BYTES
            if self.flags[last] & FAILED == 0 and held == self._deepest[session] and done <= len(prompt):
                # The usual turn: it extends the one before it, and nothing deeper is there.
                whole.update(prompt[:done])
                parent = last if whole.intdigest() == self._hash[last] else NONE
                whole.update(prompt[done:])
            else:
                whole.update(prompt)
            prompt_hash = whole.intdigest()
            if parent == NONE:
                parent, suspect = self._search(session, prompt, prompt_hash)
        else:
            whole.update(prompt)
            prompt_hash = whole.intdigest()
        whole.update(completion)
        return self._append(session, prompt, completion, parent, prompt_hash, whole.intdigest(), failed, suspect)

    def _append(
        self,
        session: int,
        prompt: memoryview,
        completion: memoryview,
        parent: int,
        prompt_hash: int,
        whole_hash: int,
        failed: bool,
        suspect: bool,
    ) -> int:
        turn = len(self.parent)
        tokens = (len(prompt) + len(completion)) // _ID_BYTES
        self.prompt_tokens.append(len(prompt) // _ID_BYTES)
        self.tokens.append(tokens)
        self.parent.append(parent)
        self.session.append(session)
        self.flags.append(FAILED * failed | SUSPECT * suspect)
        self._prompt_hash.append(prompt_hash)
        self._hash.append(whole_hash)
        self._previous.append(self.last[session])
        tail = completion[-_ID_BYTES:] or prompt[-_ID_BYTES:]
        self._last_id.append(int.from_bytes(tail, "little", signed=True))
        if self.first[session] == NONE:
            self.first[session] = turn
        self.last[session] = turn
        self.turns[session] += 1
        if not failed:
            self._whole[session] += 1
            self._deepest[session] = max(self._deepest[session], tokens)
            if parent != NONE:
                self.flags[parent] |= CONTINUED
        if session in self._indexes:
            self._indexes[session].add(turn, self)
        return turn

    def _search(self, session: int, prompt: memoryview, prompt_hash: int) -> tuple[int, bool]:
        """Parent and whether suspect, of a turn that does not simply extend the one before it."""
        count = len(prompt) // _ID_BYTES
        if self.turns[session] >= self._walked and session not in self._indexes:
            self._indexes[session] = _Lengths(self.of_session(session), self)
        index = self._indexes.get(session)
        same = self._of_prompt_length(session, count) if index is None else index.by_prompt.get(count, ())
        for turn in same:
            if self._prompt_hash[turn] == prompt_hash:
                return self.parent[turn], False
        fitting = self._fitting(session, count) if index is None else index.fitting(prompt)
        for length, turn in sorted(fitting, reverse=True):
            if xxhash.xxh3_64_intdigest(prompt[: length * _ID_BYTES]) == self._hash[turn]:
                return turn, bool(self.flags[turn] & CONTINUED)
        return NONE, self._whole[session] > 0

    def of_session(self, session: int) -> Iterator[int]:
        """The turns of a session, the newest first."""
        turn = self.last[session]
        while turn != NONE:
            yield turn
            turn = self._previous[turn]

    def tokens_not_shared(self, session: int) -> int:
        """Ids of a session that its turns do not share with their parents."""
        above = (self.parent[turn] for turn in self.of_session(session))
        shared = sum(self.tokens[parent] for parent in above if parent != NONE)
        return sum(self.tokens[turn] for turn in self.of_session(session)) - shared

    def _of_prompt_length(self, session: int, count: int) -> Iterator[int]:
        return (turn for turn in self.of_session(session) if self.prompt_tokens[turn] == count)

    def _fitting(self, session: int, count: int) -> Iterator[Candidate]:
        for turn in self.of_session(session):
            if self.tokens[turn] <= count and not self.flags[turn] & FAILED:
                yield Candidate(self.tokens[turn], turn)

    def last_id(self, turn: int) -> int:
        """The last id of its prompt and completion; 0 when it has none."""
        return self._last_id[turn]


class _Lengths:
    """The turns of a large session by how long they are."""

    def __init__(self, turns: Iterator[int], chains: TurnChains) -> None:
        self.by_prompt: dict[int, list[int]] = {}
        self._turns, self._tokens, self._last_ids = array("q"), array("i"), array("i")
        for turn in turns:
            self.add(turn, chains)

    def add(self, turn: int, chains: TurnChains) -> None:
        self.by_prompt.setdefault(chains.prompt_tokens[turn], []).append(turn)
        if not chains.flags[turn] & FAILED:
            self._turns.append(turn)
            self._tokens.append(chains.tokens[turn])
            self._last_ids.append(chains.last_id(turn))

    def fitting(self, prompt: memoryview) -> list[Candidate]:
        """Turns no longer than the prompt that end with the id that the prompt has there."""
        tokens, ids = np.array(self._tokens), np.frombuffer(prompt, np.int32)
        fits = np.flatnonzero((tokens <= len(ids)) & (tokens > 0))
        fits = fits[ids[tokens[fits] - 1] == np.array(self._last_ids)[fits]]
        return [Candidate(self._tokens[place], self._turns[place]) for place in fits.tolist()]
