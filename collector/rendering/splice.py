"""The next prompt of a conversation: the parent's exact ids, then only what is new.

What was sampled is never rendered again. The whole conversation is rendered with marks in place of the parent's
reply; the text before the marks must extend the text the parent's prompt was rendered from, and the text after
them, from the end of the reply on, is all that is encoded.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from collector.conversation import (
    HistoryReasoning,
    Reply,
    reasoning_of,
    tool_calls_of,
    without_reasoning,
)
from collector.records import ChatRequest
from collector.rendering.renderer import Renderer
from collector.rendering.template import RenderError

_EMPTY_THINKING = re.compile(r"<think>\s*</think>\s*|<think>\s*\Z")


class Ancestor(NamedTuple):
    """The turn that a new prompt continues."""

    last_id: int
    """The last sampled id."""
    message_count: int
    """Messages of its request; the next message of the conversation is its reply."""
    reply: Reply
    """Its reply, as the client got it."""
    variables: Mapping[str, object] | None
    """Template variables of its request."""
    completion_tokens: int = 0
    """How many of its ids were sampled; 0 where that is not known."""


class Extension(NamedTuple):
    """What follows the ancestor's prompt and completion."""

    new_ids: list[int]
    text_end: str
    """The end of the rendered text, which shows whether thinking has been opened."""


class Break(NamedTuple):
    """Why the ancestor could not be extended, in the words of the prefix-break check."""

    kind: str


class _Marked(NamedTuple):
    before: list[dict[str, Any]]
    """The messages up to the reply, marks in place of what it said."""
    text: str
    start: int
    """Where the first mark stands."""
    end: int
    """Where the last mark ends."""
    thinking: bool
    """Whether the mark for thinking was rendered."""


def extend(
    renderer: Renderer, chat: ChatRequest, ancestor: Ancestor, history_reasoning: HistoryReasoning
) -> Extension | Break:
    """The ids to append to the ancestor's, or why they cannot simply be appended."""
    lenient = _proved(renderer, chat, ancestor, strict=False)
    if lenient is None:
        return Break("other")
    if history_reasoning == "template":
        strict = _proved(renderer, chat, ancestor, strict=True)
        if strict is None:
            return Break(_what_the_template_dropped(chat, ancestor))
        lenient = strict
    new_ids = _encode_rest(renderer, lenient, chat, ancestor)
    return Break("other") if new_ids is None else Extension(new_ids, lenient.text[-64:])


def _proved(renderer: Renderer, chat: ChatRequest, ancestor: Ancestor, *, strict: bool) -> _Marked | None:
    """The marked rendering, if it extends what the ancestor's prompt is rendered as; thinking counts if strict."""
    count = ancestor.message_count
    history: list[dict[str, Any]] = [dict(message) for message in chat.messages[:count]]
    if not strict:
        history = [without_reasoning(message) for message in history]
    try:
        marked = _render_marked(renderer, chat, ancestor, history, thinking=strict)
        old = renderer.text(history, tools=chat.tools, variables=ancestor.variables)
    except RenderError:
        return None
    if marked is None:
        return None
    head = marked.text[: marked.start]
    if not strict:
        return marked if _EMPTY_THINKING.sub("", head).startswith(_EMPTY_THINKING.sub("", old)) else None
    if not head.startswith(old):
        return None
    between = head[len(old) :]
    keeps = marked.thinking if ancestor.reply.reasoning is not None else "<think>" not in between
    return marked if keeps else None


def _render_marked(
    renderer: Renderer,
    chat: ChatRequest,
    ancestor: Ancestor,
    history: list[dict[str, Any]],
    *,
    thinking: bool,
) -> _Marked | None:
    count = ancestor.message_count
    word = f"MARK{secrets.token_hex(12)}"
    reply = without_reasoning(chat.messages[count])
    calls = tool_calls_of(reply)
    if calls:
        reply["tool_calls"] = [
            {**call, "function": {**call.get("function", {}), "arguments": {"mark": f"{word}A{index}E"}}}
            for index, call in enumerate(calls)
        ]
    if ancestor.reply.content or not calls:
        reply["content"] = f"{word}C"
    if thinking and ancestor.reply.reasoning is not None:
        reply["reasoning_content"] = f"{word}R"
    text = renderer.text(
        [*history, reply, *chat.messages[count + 1 :]], tools=chat.tools, variables=chat.chat_template_kwargs
    )
    last = f"{word}A{len(calls) - 1}E" if calls else f"{word}C"
    if text.count(last) != 1:
        return None
    places = [text.find(mark) for mark in (f"{word}C", f"{word}A0E")]
    start = min(place for place in places if place >= 0)
    return _Marked([*history, reply], text, start, text.find(last) + len(last), f"{word}R" in text)


def _what_the_template_dropped(chat: ChatRequest, ancestor: Ancestor) -> str:
    earlier = chat.messages[: ancestor.message_count]
    thought = bool(ancestor.reply.reasoning) or any(
        bool(reasoning_of(message)) for message in earlier if message.get("role") == "assistant"
    )
    return "reasoning_stripped" if thought else "empty_think_block"


def _encode_rest(renderer: Renderer, marked: _Marked, chat: ChatRequest, ancestor: Ancestor) -> list[int] | None:
    """Ids of what follows the reply. Only at an added token is it certain that nothing merges across the seam."""
    tokenizer, rest = renderer.tokenizer, marked.text[marked.end :]
    own = ancestor.last_id if ancestor.last_id in tokenizer.stop_ids & tokenizer.added.keys() else None
    place = _end_of_turn(renderer, marked, chat, tokenizer.text_of(own)) if own is not None else None
    if place is not None:
        ids = tokenizer.encode(rest[place:])
        return ids[1:] if ids[:1] == [own] else None
    # Cut by length or a stop string, or ended by another stop token: the template's whole closing follows.
    stops = (tokenizer.text_of(index) for index in tokenizer.stop_ids & tokenizer.added.keys())
    places = [place for stop in stops if (place := _end_of_turn(renderer, marked, chat, stop)) is not None]
    if not places:
        return None
    ids = tokenizer.encode(rest[min(places) :])
    return ids if ids and ids[0] in tokenizer.added else None


def _end_of_turn(renderer: Renderer, marked: _Marked, chat: ChatRequest, stop: str) -> int | None:
    """Where the template ends the reply: at once, or after the closing of its last tool call."""
    rest = marked.text[marked.end :]
    place = rest.find(stop)
    if place < 0:
        return None
    if not tool_calls_of(marked.before[-1]):
        return place if not rest[:place].strip() else None
    return place if _is_closing(renderer, marked, chat, rest[: place + len(stop)]) else None


def _is_closing(renderer: Renderer, marked: _Marked, chat: ChatRequest, closing: str) -> bool:
    """Whether this follows the tool calls whatever is said later, and so holds nothing of a later message."""
    later = [_with_other_words(message) for message in chat.messages[len(marked.before) :]]
    try:
        text = renderer.text([*marked.before, *later], tools=chat.tools, variables=chat.chat_template_kwargs)
    except RenderError:
        return False
    return text.startswith(marked.text[: marked.end] + closing)


def _with_other_words(message: Mapping[str, object]) -> dict[str, object]:
    word = f"MARK{secrets.token_hex(12)}"
    calls = [
        {**call, "function": {**call.get("function", {}), "arguments": {"mark": word}}}
        for call in tool_calls_of(message)
    ]
    return {**without_reasoning(message), "content": word, **({"tool_calls": calls} if calls else {})}
