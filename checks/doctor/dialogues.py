"""The conversations that a chat template is tried with."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# Any: messages are JSON objects.
Message = dict[str, Any]

TOOLS: tuple[Message, ...] = (
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"when": {"type": "string"}, "city": {"type": "string"}},
                "required": ["city"],
            },
        },
    },
)


class Dialogue(NamedTuple):
    """One conversation, with everything said in it."""

    name: str
    about: str
    messages: Sequence[Message]
    tools: Sequence[Message] | None = None
    variables: Mapping[str, object] | None = None
    thinks: bool = False
    """Whether it is only meant for templates that write thinking."""

    def turns(self) -> list[int]:
        """How many messages each turn's request has: up to each assistant message, and the whole."""
        replies = [place for place, message in enumerate(self.messages) if message["role"] == "assistant"]
        return [*replies, len(self.messages)]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _said(text: str, thinking: str | None = None) -> Message:
    return {"role": "assistant", "content": text} | ({} if thinking is None else {"reasoning_content": thinking})


def _called(number: int, thinking: str | None = None) -> Message:
    # The order of the arguments is not the alphabet's: a template that sorts them shows.
    arguments = {"when": "today", "city": "Oslo"}
    function = {"name": "get_weather", "arguments": arguments}
    return {
        **_said("", thinking),
        "tool_calls": [{"id": f"call0000{number}", "type": "function", "function": function}],
    }


def _result(number: int, text: str) -> Message:
    return {"role": "tool", "tool_call_id": f"call0000{number}", "name": "get_weather", "content": text}


DIALOGUES: tuple[Dialogue, ...] = (
    Dialogue(
        "plain", "no tools, no thinking", [_user("Hi."), _said("Hello."), _user("More?"), _said("Yes."), _user("And?")]
    ),
    Dialogue(
        "system",
        "a system message",
        [{"role": "system", "content": "Be brief."}, _user("Hi."), _said("Hello."), _user("More?")],
    ),
    Dialogue(
        "thinking",
        "each reply thinks first",
        [_user("Hi."), _said("Hello.", "They greet."), _user("More?"), _said("Yes.", "They want more."), _user("And?")],
        thinks=True,
    ),
    Dialogue(
        "thinking then plain",
        "the first reply thinks, the next does not",
        [_user("Hi."), _said("Hello.", "They greet."), _user("More?"), _said("Yes."), _user("And?")],
        thinks=True,
    ),
    Dialogue(
        "thinking off",
        "enable_thinking is false",
        [_user("Hi."), _said("Hello."), _user("More?")],
        variables={"enable_thinking": False},
        thinks=True,
    ),
    Dialogue(
        "tools",
        "tools are there, none is called",
        [_user("Hi."), _said("Hello."), _user("More?")],
        tools=TOOLS,
    ),
    Dialogue(
        "tool loop",
        "calls and results, then a user message",
        [_user("Rain?"), _called(1), _result(1, "dry"), _called(2), _result(2, "wet"), _said("Wet."), _user("Thanks.")],
        tools=TOOLS,
    ),
    Dialogue(
        "thinking tool loop",
        "calls and results, a thought before each call, and no user message between",
        [_user("Rain?"), _called(1, "I must look."), _result(1, "dry"), _called(2, "Once more."), _result(2, "wet")],
        tools=TOOLS,
        thinks=True,
    ),
    Dialogue(
        "empty reply",
        "a reply without content",
        [_user("Hi."), _said(""), _user("More?"), _said("Yes."), _user("And?")],
    ),
    Dialogue(
        "white space",
        "a reply that begins and ends with white space",
        [_user("Hi."), _said("\n Hello. \n"), _user("More?")],
    ),
)
"""Tried in this order."""
