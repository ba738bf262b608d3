"""The internal form of a call and its reply: what every wire shape is translated to and from."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Literal, NamedTuple, cast

import msgspec

from collector.records import Api, ChatRequest, FinishReason, VersionSpan

_INLINE_REASONING = re.compile(r"\A\s*<think>(.*?)</think>\s*", re.DOTALL)
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How the client asked to sample; what it left out has the value that changes nothing."""

    max_tokens: int | None = None
    """Limit on sampled tokens; None leaves it to the collector."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_new_tokens: int = 0


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a model call, in the internal form."""

    api: Api
    """Wire shape it came in."""
    model: str | None = None
    """The model the client named; None takes the tenant's route."""
    chat: ChatRequest | None = None
    """The conversation; None when the client sent ids."""
    prompt_ids: tuple[int, ...] = ()
    """The exact prompt, when the client sent ids."""
    sampling: Sampling
    """How to sample."""
    session_name: str | None = None
    """The session as the body names it, for a client whose headers name none."""
    streamed: bool = False
    """Whether the reply is asked for as a stream."""
    parse_tools: bool = False
    """Whether sampled tool calls are read as such; text otherwise."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call that the model sampled."""

    id: str
    """What the client sends back with the result."""
    name: str
    """The tool."""
    arguments: str
    """A JSON object, spelled as it was sampled."""


class TextDelta(NamedTuple):
    """Visible text that became certain."""

    text: str


class ReasoningDelta(NamedTuple):
    """Thinking that became certain."""

    text: str


class ToolCallDelta(NamedTuple):
    """One whole tool call; it is only known to be one when it is complete."""

    place: int
    """0-based among the reply's calls."""
    call: ToolCall


class TokensDelta(NamedTuple):
    """Sampled ids as they came, for shapes that speak in ids."""

    ids: list[int]
    logprobs: list[float]
    text: str
    """The characters these ids completed."""


ReplyEvent = TextDelta | ReasoningDelta | ToolCallDelta | TokensDelta


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The assistant message read from sampled ids."""

    content: str = ""
    """Visible text."""
    reasoning: str | None = None
    """Thinking before the visible text; None when there was none."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tool calls, in order."""
    order: tuple[ReplyEvent, ...] | None = None
    """The same as it was said, neighbours of a kind as one; None where that is thinking, text and then tool calls."""

    def events(self) -> list[ReplyEvent]:
        """The reply as if it had become certain all at once."""
        if self.order is not None:
            return list(self.order)
        said: list[ReplyEvent] = [ReasoningDelta(self.reasoning)] if self.reasoning else []
        if self.content:
            said.append(TextDelta(self.content))
        return [*said, *(ToolCallDelta(place, call) for place, call in enumerate(self.tool_calls))]

    def message(self) -> dict[str, object]:
        """The reply in chat form, as it is stored and sent back."""
        content = None if self.tool_calls and not self.content else self.content
        message: dict[str, object] = {"role": "assistant", "content": content}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        return message


def in_order(said: Iterable[ReplyEvent]) -> tuple[ReplyEvent, ...]:
    """Events with neighbours of a kind as one."""
    merged: list[ReplyEvent] = []
    # Joined once for each run: a long reply is some ten thousand pieces.
    for _, run in groupby(said, type):
        events = list(run)
        if isinstance(events[0], TextDelta):
            merged.append(TextDelta("".join(each.text for each in events if isinstance(each, TextDelta))))
        elif isinstance(events[0], ReasoningDelta):
            merged.append(ReasoningDelta("".join(each.text for each in events if isinstance(each, ReasoningDelta))))
        else:
            merged += events
    return tuple(merged)


class TurnName(NamedTuple):
    """What a shape calls the turn by while it lasts."""

    turn_id: str
    session_id: str
    created: int
    """Unix seconds."""
    model: str
    """The model name the client used, or the one that serves it."""
    prompt_tokens: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended: what a shape needs for its last event or its JSON body."""

    name: TurnName
    reply: Reply
    text: str
    """The whole sampled text, special tokens included."""
    finish_reason: FinishReason
    matched: int | str | None
    """The stop token or stop string that ended the reply."""
    prompt_tokens: int
    cached_tokens: int | None
    completion_ids: list[int]
    reasoning_tokens: int
    """Sampled ids before the end of the thinking; 0 when there was none."""
    logprobs: list[float]
    weight_versions: list[VersionSpan]
    recorded: bool
    """Whether the record is durable."""


HistoryReasoning = Literal["keep", "template"]


def content_text(message: Mapping[str, object]) -> str:
    """The text of a message: its content, or its text parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        parts = cast(list[dict[str, Any]], content)
        return "".join(str(part.get("text", "")) for part in parts if part.get("type") in _TEXT_PARTS)
    return content if isinstance(content, str) else ""


_TEXT_PARTS = ("text", "input_text", "output_text")


def reasoning_of(message: Mapping[str, object]) -> str | None:
    """The thinking a client sent back with an assistant message, beside the content or inside it."""
    for key in _REASONING_KEYS:
        value = message.get(key)
        if isinstance(value, str):
            return value
    inline = _INLINE_REASONING.match(content_text(message))
    return inline.group(1) if inline else None


def visible_text(message: Mapping[str, object]) -> str:
    """The content of an assistant message less the thinking written into it."""
    return _INLINE_REASONING.sub("", content_text(message), count=1)


def without_reasoning(message: Mapping[str, object]) -> dict[str, object]:
    """The message with no thinking in it; any but an assistant's is returned as it is."""
    if message.get("role") != "assistant":
        return dict(message)
    kept = {key: value for key, value in message.items() if key not in _REASONING_KEYS}
    if isinstance(kept.get("content"), str):
        kept["content"] = visible_text(message)
    return kept


def tool_calls_of(message: Mapping[str, object]) -> list[dict[str, Any]]:
    """The tool calls of a message in chat form."""
    calls = message.get("tool_calls")
    return [call for call in cast(list[Any], calls) if isinstance(call, dict)] if isinstance(calls, list) else []
