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
    unopened_thinking,
)
from checks.ragged import Array
from collector.rendering.tokenizer import ChatTokenizer

_AHEAD = 1024
"""Tokens after a break whose text is looked at, and before it where no message begins."""
_HEADER_TOKENS = 16
"""Most tokens that a message header takes: its mark and the word of the role, a byte each if need be."""
_CONTEXT = 4
"""Tokens before a break that are decoded with what follows, so that a character cut in two is whole."""
_MEETS = 64
"""Tokens within which two tokenizations of one text meet again."""


class KindTeller:
    """Tells kinds with one model's tokenizer."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        self._added = np.zeros(max(tokenizer.size(), 1 + max(tokenizer.added, default=0)), np.bool_)
        self._added[list(tokenizer.added)] = True
        bos = tokenizer.names.get("bos_token")
        # Where one token begins both the text and each message, as in ChatML, it is not the text's beginning alone.
        mark = None if bos is None or role_at(bos + "user") else tokenizer.backend.token_to_id(bos)
        self._bos = -1 if mark is None else mark
        self._opens = np.zeros_like(self._added)
        self._opens[[index for index, token in tokenizer.added.items() if role_at(token.content + "user")]] = True

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
        start = max(0, index - _CONTEXT)
        shared = len(self.text(before[start:index]))
        alike = _common(*(self.text(ids[start : index + _MEETS]) for ids in (before, now)))
        if alike <= shared:
            return False
        texts = set(self._growing(before, start, index, alike))
        return any(text in texts and len(text) > shared for text in self._growing(now, start, index, alike))

    def _growing(self, ids: Array, start: int, index: int, alike: int) -> Iterator[str]:
        """The text up to the end of each token from a place on, as far as it is alike and whole characters."""
        for end in range(index + 1, min(len(ids), index + _MEETS) + 1):
            text = self.text(ids[start:end])
            if len(text) > alike + 1:
                return
            if "\ufffd" not in text:
                yield text

    def _openings(self, ids: Array) -> list[int]:
        """Places of added tokens that may begin a message's header."""
        known = (ids >= 0) & (ids < len(self._opens))
        return np.flatnonzero(known & self._opens[np.where(known, ids, 0)]).tolist()

    def _role(self, ids: Array, place: int, end: int | None = None) -> str | None:
        return role_at(self.text(ids[place : place + _HEADER_TOKENS][: None if end is None else end - place]))

    def _system_part(self, ids: Array) -> Array | None:
        """What stands before the first message that is not a system message, less the marks of beginning."""
        first = next((at for at in self._openings(ids) if self._role(ids, at) not in (None, "system")), None)
        if first is None:
            return None
        begun = 0
        while begun < first and int(ids[begun]) == self._bos:
            begun += 1
        while begun + 1 < first and ids[begun] == ids[begun + 1] and int(ids[begun]) in self._tokenizer.added:
            begun += 1
        return ids[begun:first]

    def _system_differs(self, before: Array, now: Array, index: int) -> bool:
        one, other = self._system_part(before), self._system_part(now)
        if one is None or other is None or index > max(len(one), len(other)) + _HEADER_TOKENS:
            return False
        return not np.array_equal(one, other)

    def _stop_differs(self, before: Array, now: Array, index: int, *, in_prompt: bool) -> bool:
        """Whether a token that ends a message gave way to another one, or to the next message."""
        here_ends, there_ends = (ends_message(self.text(ids[index : index + 1])) for ids in (before, now))
        if in_prompt:
            return here_ends and there_ends
        if not here_ends and int(before[index]) not in self._tokenizer.stop_ids:
            return False
        after = self.text(now[index : index + 2 * _HEADER_TOKENS]).lstrip()
        return there_ends or END_OF_MESSAGE.match(after) is not None or role_at(after) is not None

    def _start_of_message(self, ids: Array, index: int) -> int:
        """Where the message that a place is in begins; where nothing marks that, some tokens before."""
        for place in reversed(self._openings(ids[:index])):
            if self._role(ids, place, index) is not None:
                return place
        return max(0, index - _AHEAD)

    def _answers(self, ids: Array) -> int:
        return sum(self._role(ids, place) == "assistant" for place in self._openings(ids))


def _kind_of_text(one: str, other: str) -> str:
    """The kind of the first difference between a message as it was and as it is now, each with what follows it."""
    place = _common(one, other)
    thought, thought_now = (
        span_covering(text, place, THINKING) or unopened_thinking(text, place) for text in (one, other)
    )
    if thought is not None and thought.content.strip():
        return "other" if thought_now is not None and thought_now.content.strip() else "reasoning_stripped"
    if (thought is None) != (thought_now is None):
        kept = thought_now if thought is None else thought
        return "empty_think_block" if kept is not None and not kept.content.strip() else "other"
    call, call_now = _call_around(one, place), _call_around(other, place)
    if call is None or call_now is None:
        return "other"
    return "tool_call_reserialized" if len({name_of_call(call), name_of_call(call_now)} - {None}) <= 1 else "other"


def _call_around(text: str, place: int) -> str | None:
    """The tool call that a place is in: what stands between its marks, or a message that is nothing but JSON."""
    span = span_covering(text, place, CALLS)
    return text[span.start : span.end] if span is not None else _json_around(text, place)


def _common(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _json_around(text: str, place: int) -> str | None:
    """The JSON object or list that a message is from its first bracket at or before a place on; None if it is none."""
    starts = [at for at in (text.find("{"), text.find("[")) if 0 <= at <= place]
    ended = END_OF_MESSAGE.search(text, place)
    if not starts:
        return None
    written = text[min(starts) : len(text) if ended is None else ended.start()]
    try:
        json.loads(written)
    except (ValueError, RecursionError):
        return None
    return written
