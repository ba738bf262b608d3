"""How model families write tool calls into a reply, and what reads them."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec


class WrittenCall(NamedTuple):
    """One tool call as it stands in a reply."""

    name: str
    arguments: str
    """A JSON object, as it was sampled where the family writes JSON."""
    id: str | None = None
    """The id the model gave it; None where the family writes none."""


class CallSyntax(NamedTuple):
    """Where a block of tool calls begins and ends, and what is in it."""

    opening: str
    closing: str
    read: Callable[[str], list[WrittenCall] | None]
    """The calls in the text between the two; None where it holds none that can be read, and so is text."""
    tokens: tuple[str, ...] = ()
    """Further special tokens that structure a block."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Tokens that are read, and not hidden as other special tokens are."""
        return (self.opening, self.closing, *self.tokens)


class Brackets(NamedTuple):
    """A family's opening, closing and further tokens."""

    opening: str
    closing: str
    tokens: tuple[str, ...] = ()


_TAGS = Brackets("<tool_call>", "</tool_call>", ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"))
_KIMI = Brackets(
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    ("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
)
_DEEPSEEK = Brackets(
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
)
_MINIMAX = Brackets("<minimax:tool_call>", "</minimax:tool_call>")

BRACKETS: dict[str, Brackets] = {
    **dict.fromkeys(("prime-qwen3", "qwen3.5", "qwen3.6", "qwen3.8"), _TAGS),
    **dict.fromkeys(("glm-4.5", "glm-5", "glm-5.1", "glm-5.3"), _TAGS),
    **dict.fromkeys(("nemotron-3", "nemotron-3-ultra", "nemotron-3.5"), _TAGS),
    **dict.fromkeys(("kimi-k2", "kimi-k2.5"), _KIMI),
    **dict.fromkeys(("deepseek-v3", "deepseek-r1"), _DEEPSEEK),
    "minimax-m2": _MINIMAX,
}
"""Families whose calls are not JSON in `<tool_call>` tags, by the package's name for them."""


class _Json(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


def read_json_call(body: str) -> list[WrittenCall] | None:
    """A call as a JSON object with name and arguments; the arguments may be JSON in a string."""
    try:
        sampled = msgspec.json.decode(body.encode(), type=_Json)
        value = msgspec.json.decode(sampled.arguments)
    # A model that runs away may nest deeper than can be read.
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return [WrittenCall(sampled.name, value if isinstance(value, str) else bytes(sampled.arguments).decode())]


def spelled(arguments: dict[str, Any] | str | None) -> str | None:
    """Arguments as JSON; None where they are no text of it."""
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments or {}, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return None


JSON_CALLS = CallSyntax("<tool_call>", "</tool_call>", read_json_call)
"""Calls as the Hermes and Qwen families write them, and as other models are told to."""
