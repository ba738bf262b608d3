"""Reads an assistant message out of sampled text: thinking, visible text, tool calls."""

import hashlib
from collections.abc import Callable
from typing import Literal, cast

import msgspec

from collector.conversation import ReasoningDelta, Reply, ReplyEvent, TextDelta, ToolCall, ToolCallDelta, in_order
from collector.nesting import DEEPEST, nested_deeper
from collector.parsing.call_syntax import JSON_CALLS, CallSyntax
from collector.parsing.stop_strings import held_suffix

MARKERS = ("<think>", "</think>")
"""Text, or special tokens, that structure every family's reply."""

_THINK, _THINK_END = MARKERS
_State = Literal["start", "thinking", "after_thinking", "text", "call"]


class ReplyParser:
    """Turns text into events. The sum of the events does not depend on how the text was cut up."""

    def __init__(self, *, seed: str, thinking_open: bool, parse_tools: bool, syntax: CallSyntax = JSON_CALLS) -> None:
        self._seed = seed
        self._syntax = syntax
        self._parse_tools = parse_tools
        self._state: _State = "thinking" if thinking_open else "start"
        self._pending = ""
        self._space = ""
        self._content: list[str] = []
        self._reasoning: list[str] | None = [] if thinking_open else None
        self._calls: list[ToolCall] = []
        self._events: list[ReplyEvent] = []
        self._said: list[ReplyEvent] = []

    @property
    def thinks(self) -> bool:
        """Whether the text so far ends inside the thinking."""
        return self._state == "thinking"

    @property
    def thought(self) -> bool:
        """Whether there can be no more thinking."""
        return self._state not in ("start", "thinking")

    def add(self, text: str) -> list[ReplyEvent]:
        """What became certain with this text."""
        self._pending += text
        while self._step():
            pass
        return self._take_events()

    @property
    def plain(self) -> bool:
        """Whether all that comes is visible text, as it is."""
        return self._state == "text" and not self._parse_tools and not self._pending

    def show(self, texts: list[str]) -> list[ReplyEvent]:
        """Takes in pieces of plain text."""
        events: list[ReplyEvent] = [TextDelta(text) for text in texts if text]
        self._content += texts
        self._said += events
        return events

    def finish(self) -> list[ReplyEvent]:
        """What was held back; a tool call that was never closed is text."""
        rest, self._pending = self._pending, ""
        if self._state == "thinking":
            self._think(rest)
        elif self._state == "call":
            self._write(self._syntax.opening + rest)
        elif self._state != "after_thinking":
            self._write(rest)
        if self._space and self._state != "thinking" and not self._calls:
            self._show(self._space)
        self._space = ""
        return self._take_events()

    def reply(self) -> Reply:
        """The message so far."""
        reasoning = None if self._reasoning is None else "".join(self._reasoning)
        said = in_order([*self._said, *self._events])
        return Reply(content="".join(self._content), reasoning=reasoning, tool_calls=tuple(self._calls), order=said)

    def _take_events(self) -> list[ReplyEvent]:
        events, self._events = self._events, []
        self._said += events
        return events

    def _step(self) -> bool:
        """Consumes what can be decided; whether there may be more."""
        match self._state:
            case "start":
                return self._begin()
            case "thinking":
                return self._until(_THINK_END, self._think, "after_thinking")
            case "after_thinking":
                self._space = ""
                self._pending = self._pending.lstrip()
                if self._pending:
                    self._state = "text"
                return bool(self._pending)
            case "text":
                if self._parse_tools:
                    return self._until(self._syntax.opening, self._write, "call")
                self._show(self._pending)
                self._pending = ""
                return False
            case "call":
                return self._close_call()

    def _begin(self) -> bool:
        text = self._pending.lstrip()
        if text.startswith(_THINK):
            self._pending, self._state, self._reasoning = text[len(_THINK) :], "thinking", []
            return True
        if _THINK.startswith(text):
            return False
        self._state = "text"
        return True

    def _until(self, marker: str, write: Callable[[str], None], after: _State) -> bool:
        before, found, rest = self._pending.partition(marker)
        if found:
            write(before)
            self._pending, self._state = rest, after
            return True
        keep = held_suffix(self._pending, (marker,))
        write(self._pending[: len(self._pending) - keep])
        self._pending = self._pending[len(self._pending) - keep :]
        return False

    def _close_call(self) -> bool:
        opening, closing = self._syntax.opening, self._syntax.closing
        body, found, rest = self._pending.partition(closing)
        if not found:
            return False
        self._pending, self._state = rest, "text"
        calls = self._read_calls(body)
        if not calls:
            self._write(f"{opening}{body}{closing}")
            return True
        self._space = ""
        for call in calls:
            self._events.append(ToolCallDelta(len(self._calls), call))
            self._calls.append(call)
        return True

    def _read_calls(self, body: str) -> list[ToolCall]:
        """The calls of a block; none where one of them is not what a client could send back."""
        calls: list[ToolCall] = []
        for written in self._syntax.read(body) or ():
            try:
                inner = msgspec.json.decode(written.arguments.encode())
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                return []
            # A client sends the call back, and what it sends is bounded.
            if not written.name or not isinstance(inner, dict) or nested_deeper(cast(object, inner), DEEPEST):
                return []
            number = len(self._calls) + len(calls)
            digest = hashlib.blake2b(f"{self._seed}:{number}".encode(), digest_size=12).hexdigest()
            calls.append(ToolCall(id=written.id or f"call_{digest}", name=written.name, arguments=written.arguments))
        return calls

    def _think(self, text: str) -> None:
        assert self._reasoning is not None
        whole = self._space + text if self._reasoning else (self._space + text).lstrip("\n")
        shown = whole.rstrip()
        self._space = whole[len(shown) :]
        if shown:
            self._reasoning.append(shown)
            self._events.append(ReasoningDelta(shown))

    def _write(self, text: str) -> None:
        """Visible text; white space waits, since it is dropped when a tool call follows."""
        whole = self._space + text
        shown = whole.rstrip()
        self._space = whole[len(shown) :]
        if shown:
            self._show(shown)

    def _show(self, text: str) -> None:
        if text:
            self._content.append(text)
            self._events.append(TextDelta(text))
