"""Rebuilds full prompts and requests from what turns keep; what cannot be rebuilt is named, never guessed."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Kept(NamedTuple):
    """What a turn keeps of its prompt and request; arrays as packed int32, JSON as text."""

    session_id: str
    prefix_seq: int | None
    prefix_tokens: int
    new_ids: bytes
    completion: bytes
    prefix_messages: int | None
    new_messages: bytes | None
    rest: bytes | None


class Whole(NamedTuple):
    """A turn's full prompt, and its request where it has one."""

    prompt: bytes
    completion: bytes
    messages: list[bytes] | None
    rest: bytes | None

    def request(self) -> bytes | None:
        """The request as JSON text."""
        if self.messages is None or self.rest is None:
            return None
        return b'{"messages":[' + b",".join(self.messages) + b"]," + self.rest[1:]

    def weight(self) -> int:
        """Bytes it holds."""
        return len(self.prompt) + len(self.completion) + sum(map(len, self.messages or ())) + 500


Fetch = Callable[[str, int, str], dict[int, Kept]]
"""(writer, seq, session) to what that session's turns up to seq keep, by seq."""


class Rebuilder:
    """Full prompts of one snapshot, with the recent ones at hand."""

    def __init__(self, fetch: Fetch, *, limit_bytes: int = 256 * 2**20) -> None:
        self._fetch = fetch
        self._limit = limit_bytes
        self._held = 0
        self._recent: OrderedDict[tuple[str, int], Whole | None] = OrderedDict()

    def whole(self, writer: str, seq: int, kept: Kept) -> Whole | None:
        """The full turn; None when a turn that it was kept against is gone or does not fit."""
        chain = self._chain(writer, seq, kept)
        base: Whole | None = None
        for at, link in reversed(chain):
            if (writer, at) in self._recent:
                base = self._recent[writer, at]
            else:
                base = _extended(base, link)
                self._remember(writer, at, base)
        return base

    def _chain(self, writer: str, seq: int, kept: Kept) -> Sequence[tuple[int, Kept]]:
        """The turn, what it was kept against, and so on, up to the first that is whole or known."""
        chain = [(seq, kept)]
        fetched: dict[int, Kept] | None = None
        while (writer, chain[-1][0]) not in self._recent and chain[-1][1].prefix_seq is not None:
            before = chain[-1][1].prefix_seq
            if before >= chain[-1][0]:
                break
            if (writer, before) in self._recent:
                chain.append((before, _NOTHING))
                break
            fetched = self._fetch(writer, before, kept.session_id) if fetched is None else fetched
            if before not in fetched:
                break
            chain.append((before, fetched[before]))
        return chain

    def _remember(self, writer: str, seq: int, whole: Whole | None) -> None:
        self._recent[writer, seq] = whole
        self._held += whole.weight() if whole else 0
        while self._held > self._limit and len(self._recent) > 1:
            dropped = self._recent.popitem(last=False)[1]
            self._held -= dropped.weight() if dropped else 0


_NOTHING = Kept("", None, 0, b"", b"", None, None, None)


def _extended(base: Whole | None, kept: Kept) -> Whole | None:
    if kept.prefix_seq is not None and base is None:
        return None
    prompt = kept.new_ids
    if kept.prefix_tokens:
        if base is None or len(base.prompt) + len(base.completion) != 4 * kept.prefix_tokens:
            return None
        prompt = base.prompt + base.completion + kept.new_ids
    if kept.new_messages is None:
        return Whole(prompt, kept.completion, None, None)
    messages = [bytes(raw) for raw in _split(kept.new_messages)]
    rest = kept.rest
    if kept.prefix_messages:
        if base is None or base.messages is None or len(base.messages) < kept.prefix_messages:
            return None
        messages = base.messages[: kept.prefix_messages] + messages
        rest = base.rest if rest is None else rest
    return Whole(prompt, kept.completion, messages, rest)
