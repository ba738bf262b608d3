"""What is kept of a log's turns, so that a later turn finds the one it extends: digests, not ids."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import xxhash

from checks.ragged import Array

KEPT_TURNS = 200_000
"""Turns remembered at a time, or as much in thinking; sessions not seen for longest are forgotten first."""
_TURN_CHARS = 1000


class KnownTurn(NamedTuple):
    """One earlier turn."""

    length: int
    """Its prompt and completion, in tokens."""
    digest: bytes
    """Of those ids."""
    last_id: int
    message_count: int | None
    """Messages of its request; None where the log has no request."""
    variables: Mapping[str, object] | None
    """Template variables of its request."""


class Past(NamedTuple):
    """What a turn's session was before it."""

    parent: KnownTurn | None
    """The deepest earlier turn whose prompt and completion this prompt begins with."""
    whole: bool
    """Whether every earlier turn of the session is known: only then is None no parent."""
    thoughts: Mapping[int, str]
    """Place of an assistant message to the thinking sampled for it."""


class _Session:
    def __init__(self) -> None:
        self.seen = 0
        self.weight = 0
        self.turns: list[KnownTurn] = []
        self.thoughts: dict[int, str] = {}


class KnownTurns:
    """The turns of a log as it is read, session by session."""

    def __init__(self, kept_turns: int = KEPT_TURNS) -> None:
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._kept_turns = kept_turns
        self._weight = 0

    def past(self, session_id: str, turn: int, prompt: Array) -> Past:
        """What is known before a turn."""
        session = self._sessions.get(session_id)
        if session is None:
            return Past(None, turn <= 1, {})
        parent = None
        hasher, done, raw = xxhash.xxh3_128(), 0, prompt.astype("<i4", copy=False).tobytes()
        for known in sorted(session.turns, key=lambda known: known.length):
            if known.length > len(prompt):
                break
            hasher.update(raw[4 * done : 4 * known.length])
            done = known.length
            if hasher.digest() == known.digest:
                parent = known
        return Past(parent, session.seen >= turn - 1, session.thoughts)

    def add(
        self,
        session_id: str,
        prompt: Array,
        completion: Array,
        message_count: int | None,
        variables: Mapping[str, object] | None,
        thinking: str | None,
    ) -> None:
        """Remembers a turn. One that sampled nothing is not continued by another."""
        session = self._sessions.setdefault(session_id, _Session())
        self._sessions.move_to_end(session_id)
        session.seen += 1
        if not len(completion):
            return
        hasher = xxhash.xxh3_128(prompt.astype("<i4", copy=False).tobytes())
        hasher.update(completion.astype("<i4", copy=False).tobytes())
        length, last_id = len(prompt) + len(completion), int(completion[-1])
        session.turns.append(KnownTurn(length, hasher.digest(), last_id, message_count, variables))
        weight = 1
        if thinking and message_count is not None:
            session.thoughts[message_count] = thinking
            weight += len(thinking) // _TURN_CHARS
        session.weight += weight
        self._weight += weight
        while self._weight > self._kept_turns and len(self._sessions) > 1:
            _, forgotten = self._sessions.popitem(last=False)
            self._weight -= forgotten.weight
