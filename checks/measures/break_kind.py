"""Of which kind a break is, told from the text on both sides and from special tokens."""

import json
from collections.abc import Iterator

import numpy as np

from checks.measures.message_marks import (
    CALLS,
    END_OF_MESSAGE,
    THINKING,
    ends_message,
    name_of_call,
    role_at,
    span_covering,
)
from checks.ragged import Array
from collector.rendering.tokenizer import ChatTokenizer

_AHEAD = 4096
"""Tokens after a break whose text is looked at."""
_HEADER_TOKENS = 4
"""Tokens that a message header takes: its mark and the word of the role."""
_MEETS = 64
"""Tokens within which two tokenizations of one text meet again."""
_HEADERS_TRIED = 256
"""Added tokens looked at, backwards, for the beginning of a message."""


class KindTeller:
    """Tells kinds with one model's tokenizer."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        self._added = np.zeros(max(tokenizer.size(), 1 + max(tokenizer.added, default=0)), np.bool_)
        self._added[list(tokenizer.added)] = True

    def text(self, ids: Array) -> str:
        """The text of some ids; one that the tokenizer does not have is a replacement character."""
        known = [index if 0 <= index < len(self._added) else None for index in ids.tolist()]
        if None not in known:
            return self._tokenizer.decode(ids.tolist())
        return "".join("\ufffd" if index is None else self._tokenizer.text_of(index) for index in known)

    def kind(self, before: Array, now: Array, index: int, prompt_tokens: int) -> str:
        """The kind of the first difference: `before` is the earlier turn's prompt and completion, `now` the prompt."""
        if index >= len(now) or index >= len(before):
            return "other"
        if self._same_text(before, now, index):
            return "retokenized"
        in_prompt = index < prompt_tokens
        if in_prompt and self._system_differs(before, now, index):
            return "system_prompt_changed"
        if self._stop_differs(before, now, index, in_prompt=in_prompt):
            return "stop_token_replaced"
        start = self._start_of_message(before, index)
        one, other = self._window(before, start, index), self._window(now, start, index)
        kind = _kind_of_text(one, other)
        if kind == "other" and in_prompt and self._answers(now[index:]) < self._answers(before[index:]):
            return "compaction"
        return kind

    def _window(self, ids: Array, start: int, index: int) -> str:
        return self.text(ids[start : index + _AHEAD])

    def _same_text(self, before: Array, now: Array, index: int) -> bool:
        """Whether both go on with the same text in other tokens, up to a place where both end a token."""
        start = max(0, index - _HEADER_TOKENS)
        shared = self.text(before[start:index])
        texts = {text for text in self._growing(before, start, index) if len(text) > len(shared)}
        return any(text in texts and "\ufffd" not in text for text in self._growing(now, start, index))

    def _growing(self, ids: Array, start: int, index: int) -> Iterator[str]:
        for end in range(index + 1, min(len(ids), index + _MEETS) + 1):
            yield self.text(ids[start:end])

    def _added_places(self, ids: Array) -> Array:
        known = np.where((ids >= 0) & (ids < len(self._added)), ids, 0)
        return np.flatnonzero(self._added[known])

    def _role(self, ids: Array, place: int, end: int | None = None) -> str | None:
        return role_at(self.text(ids[place : place + _HEADER_TOKENS][: None if end is None else end - place]))

    def _system_part(self, ids: Array) -> Array | None:
        """What stands before the first message that is not a system message, less a second mark of beginning."""
        first = next(
            (int(at) for at in self._added_places(ids) if self._role(ids, int(at)) not in (None, "system")), None
        )
        if first is None:
            return None
        doubled = 0
        while (
            doubled + 1 < first
            and ids[doubled] == ids[doubled + 1]
            and self._added_places(ids[doubled : doubled + 1]).size
        ):
            doubled += 1
        return ids[doubled:first]

    def _system_differs(self, before: Array, now: Array, index: int) -> bool:
        one, other = self._system_part(before), self._system_part(now)
        if one is None or other is None or index > max(len(one), len(other)) + _HEADER_TOKENS:
            return False
        return not np.array_equal(one, other)

    def _stop_differs(self, before: Array, now: Array, index: int, *, in_prompt: bool) -> bool:
        """Whether a token that ends a message gave way to another one, or to the next message."""
        here, there = int(before[index]), int(now[index])
        here_ends, there_ends = (ends_message(self._tokenizer.text_of(each)) for each in (here, there))
        if in_prompt:
            return here_ends and there_ends
        stops = here_ends or here in self._tokenizer.stop_ids
        if not stops:
            return False
        after = self.text(now[index : index + 2 * _HEADER_TOKENS]).lstrip()
        return there_ends or END_OF_MESSAGE.match(after) is not None or role_at(after) is not None

    def _start_of_message(self, ids: Array, index: int) -> int:
        """Where the message that a place is in begins; with no such mark, a few hundred tokens before."""
        for place in reversed(self._added_places(ids[:index])[-_HEADERS_TRIED:].tolist()):
            if self._role(ids, place, index) is not None:
                return place
        return max(0, index - _HEADERS_TRIED)

    def _answers(self, ids: Array) -> int:
        return sum(self._role(ids, place) == "assistant" for place in self._added_places(ids).tolist())


def _kind_of_text(one: str, other: str) -> str:
    """The kind of the first difference between a message as it was and as it is now, each with what follows it."""
    place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    thought, thought_now = (span_covering(text, place, THINKING) for text in (one, other))
    if thought is not None and thought.content.strip():
        return "other" if thought_now is not None and thought_now.content.strip() else "reasoning_stripped"
    if (thought is None) != (thought_now is None):
        kept = thought_now if thought is None else thought
        return "empty_think_block" if kept is not None and not kept.content.strip() else "other"
    call, call_now = (span_covering(text, place, CALLS) for text in (one, other))
    if call is not None and call_now is not None:
        names = {name_of_call(text[span.start : span.end]) for text, span in ((one, call), (other, call_now))}
        return "tool_call_reserialized" if len(names - {None}) <= 1 else "other"
    value, value_now = _json_around(one, place), _json_around(other, place)
    return "tool_call_reserialized" if value is not None and value == value_now else "other"


def _json_around(text: str, place: int) -> object:
    """The JSON object or list that a message is, from its first bracket before a place on; None when it is none."""
    starts = [at for at in (text.find("{"), text.find("[")) if 0 <= at <= place]
    ended = END_OF_MESSAGE.search(text, place)
    if not starts:
        return None
    try:
        return json.loads(text[min(starts) : len(text) if ended is None else ended.start()])
    except (ValueError, RecursionError):
        return None
