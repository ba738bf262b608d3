"""What a client sends back of replies that read the same, and which of them it is that it continues."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from collector.conversation import reasoning_of, tool_calls_of, visible_text


class Mark(NamedTuple):
    """What one assistant message has that its fingerprint leaves out."""

    place: int
    """Of the message in the conversation."""
    call_ids: tuple[str, ...]
    """Ids of its tool calls."""
    reasoning: bytes | None
    """Fingerprint of its thinking; None when it was left out."""
    wording: bytes
    """Fingerprint of the text and the arguments, spelled as they are."""


class Trail:
    """The marks of a turn's conversation, reply included: what it added, and the trail of the turn it continues."""

    __slots__ = ("added", "before", "continued")

    def __init__(
        self, messages: Sequence[Mapping[str, object]], reply: Mapping[str, object] | None, before: "Trail | None"
    ) -> None:
        self.before = before
        start = before.added[-1].place + 1 if before is not None else 0
        said = [_mark(place, messages[place]) for place in _replies(messages) if place >= start]
        if reply is not None:
            own = _mark(len(messages), reply)
            # A reply without thinking had none; a client that shows none may have left it out.
            said.append(own if own.reasoning is not None else own._replace(reasoning=_digest("")))
        self.added = tuple(said)
        self.continued = False
        """Whether a request has gone on from here."""


class Agreement(NamedTuple):
    """How far what a client sends back is what a turn said."""

    call_ids: int = 0
    """Replies whose tool-call ids came back as they were given out."""
    clashes: int = 0
    """Replies that came back with other thinking."""
    alike: int = 0
    """Replies that came back with the same thinking, and those that came back with the same wording."""


class Echo:
    """The assistant messages of one request, compared with the trails of earlier turns."""

    def __init__(self, messages: Sequence[Mapping[str, object]]) -> None:
        self._sent = {place: _mark(place, messages[place]) for place in _replies(messages)}
        self._known: dict[Trail, Agreement] = {}

    def agreement(self, trail: Trail) -> Agreement:
        """Compares a trail whose conversation the request begins with."""
        ahead: list[Trail] = []
        node: Trail | None = trail
        while node is not None and node not in self._known:
            ahead.append(node)
            node = node.before
        found = self._known[node] if node is not None else Agreement()
        for later in reversed(ahead):
            for mark in later.added:
                found = _compared(found, self._sent[mark.place], mark)
            self._known[later] = found
        return found


def _compared(so_far: Agreement, sent: Mark, said: Mark) -> Agreement:
    both = sent.reasoning is not None and said.reasoning is not None
    same = both and sent.reasoning == said.reasoning
    return Agreement(
        so_far.call_ids + (bool(sent.call_ids) and sent.call_ids == said.call_ids),
        so_far.clashes + (both and not same),
        so_far.alike + same + (sent.wording == said.wording),
    )


def _mark(place: int, message: Mapping[str, object]) -> Mark:
    calls = tool_calls_of(message)
    reasoning = reasoning_of(message)
    words = [visible_text(message), *(_arguments(call) for call in calls)]
    return Mark(
        place,
        tuple(str(call.get("id")) for call in calls),
        None if reasoning is None else _digest(reasoning.strip()),
        _digest("\0".join(words)),
    )


def _arguments(call: dict[str, Any]) -> str:
    return str(cast(dict[str, Any], call.get("function") or {}).get("arguments"))


def _replies(messages: Sequence[Mapping[str, object]]) -> list[int]:
    return [place for place, message in enumerate(messages) if message.get("role") == "assistant"]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
