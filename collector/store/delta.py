"""Prompt deltas: a turn keeps what its prompt and request add to an earlier turn of the same session and journal.

A full copy is kept when the deltas since the last one would outweigh it. So the bytes of a session grow linearly,
and a rebuild reads at most twice the bytes of what it rebuilds.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from collector.records import ChatRequest, Turn
from collector.store.arrays import IDS, to_bytes
from collector.store.codec import check_json, plain_values, unchecked_json_text
from collector.store.columns import record_columns, stored_columns

_STORED = [column.name for column in stored_columns("turns")]
_AT_PROMPT = _STORED.index("prefix_seq")
_AT_REQUEST = _STORED.index("request_prefix_messages")
_PROMPT = [column.name for column in record_columns("turns")].index("prompt_ids")
_REQUEST = [column.name for column in record_columns("turns")].index("request")
_COMPLETION = _STORED.index("completion_ids")


class _Growth(NamedTuple):
    """Bytes of the last full copy and of the deltas kept since."""

    full: int
    since: int

    def extended(self, added: int) -> "_Growth | None":
        """The growth after one more delta; None when a full copy is due."""
        return _Growth(self.full, self.since + added) if self.since + added <= self.full else None


_Rest = tuple[bytes, bytes]
"""A request's tools and its template variables, as JSON text."""


class _Known(NamedTuple):
    seq: int
    session_id: str
    prompt_bytes: int
    ids: bytes
    ids_growth: _Growth
    messages: list[bytes]
    rest: _Rest
    text_growth: _Growth

    def weight(self) -> int:
        """Bytes it holds, shared ones counted again."""
        return len(self.ids) + sum(map(len, self.messages)) + sum(map(len, self.rest)) + 500


class PrefixCache:
    """Recent turns of one journal, by turn id, bounded in bytes: what new turns are stored against."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def values(self, turn: Turn, seq: int) -> list[Any]:
        """The turn's plain stored values; from now on later turns may be stored against it."""
        values = plain_values(turn, "turns")
        parent = self._parent(turn)
        prompt = to_bytes(turn.prompt_ids, IDS)
        ids_base, ids_growth = _longest_ids(prompt, parent)
        request, messages, rest, text_growth = _request_values(turn.request, parent)
        used = parent is not None and (ids_base > 0 or bool(request[0]))
        values[_REQUEST : _REQUEST + 1] = request
        values[_PROMPT : _PROMPT + 1] = [parent.seq if parent and used else None, ids_base // 4, prompt[ids_base:]]
        ids = prompt + values[_COMPLETION]
        self._add(turn.turn_id, _Known(seq, turn.session_id, len(prompt), ids, ids_growth, messages, rest, text_growth))
        return values

    def drop(self, turn_id: str) -> None:
        """Forgets one turn, as when its record was refused after all."""
        dropped = self._known.pop(turn_id, None)
        self._held -= dropped.weight() if dropped else 0

    def clear(self) -> None:
        """Forgets every turn, as after a commit that failed."""
        self._known.clear()
        self._held = 0

    def _parent(self, turn: Turn) -> _Known | None:
        known = self._known.get(turn.parent_turn_id) if turn.parent_turn_id else None
        if known is None or known.session_id != turn.session_id:
            return None
        # A turn that was extended is the least likely to be extended again.
        self._known.move_to_end(turn.parent_turn_id or "", last=False)
        return known

    def _add(self, turn_id: str, known: _Known) -> None:
        replaced = self._known.pop(turn_id, None)
        self._held += known.weight() - (replaced.weight() if replaced else 0)
        self._known[turn_id] = known
        while self._held > self._limit:
            self._held -= self._known.popitem(last=False)[1].weight()


def _longest_ids(prompt: bytes, parent: _Known | None) -> tuple[int, _Growth]:
    """How many bytes of the prompt the parent holds: all of its own, or none."""
    if parent is not None and parent.ids and prompt.startswith(parent.ids):
        growth = parent.ids_growth.extended(len(prompt) - parent.prompt_bytes)
        if growth is not None:
            return len(parent.ids), growth
    return 0, _Growth(len(prompt), 0)


def _request_values(
    request: ChatRequest | None, parent: _Known | None
) -> tuple[list[Any], list[bytes], _Rest, _Growth]:
    if request is None:
        return [None, None, None], [], (b"", b""), _Growth(0, 0)
    messages = [unchecked_json_text(message) for message in request.messages]
    tools, kwargs = unchecked_json_text(request.tools), unchecked_json_text(request.chat_template_kwargs)
    shared = _shared(messages, parent.messages) if parent is not None else 0
    rest: _Rest = (tools, kwargs)
    same_rest = False
    if parent is not None and parent.rest == rest:
        # The parent's own objects are kept, so that a long session holds its text once.
        same_rest, rest = True, parent.rest
    # What equals the parent's text was checked with the parent.
    for value, text in zip(request.messages[shared:], messages[shared:], strict=True):
        check_json(value, text)
    if not same_rest:
        check_json(request.tools, tools)
        check_json(request.chat_template_kwargs, kwargs)
    if parent is not None and shared:
        messages[:shared] = parent.messages[:shared]
        added = sum(map(len, messages[shared:])) + (0 if same_rest else len(tools) + len(kwargs))
        growth = parent.text_growth.extended(added)
        if growth is not None:
            return [shared, _joined(messages[shared:]), None if same_rest else _rest_text(rest)], messages, rest, growth
    whole = _joined(messages)
    return [0, whole, _rest_text(rest)], messages, rest, _Growth(len(whole) + len(tools) + len(kwargs), 0)


def _shared(ours: Sequence[bytes], theirs: Sequence[bytes]) -> int:
    count = 0
    for mine, other in zip(ours, theirs, strict=False):
        if mine != other:
            break
        count += 1
    return count


def _rest_text(rest: _Rest) -> bytes:
    return b'{"tools":%b,"chat_template_kwargs":%b}' % rest


def _joined(messages: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(messages) + b"]"
