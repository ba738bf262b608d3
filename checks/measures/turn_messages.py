"""A turn's messages as fingerprints, and which earlier turn they continue."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from collector.conversation import reasoning_of, tool_calls_of
from collector.digests import chain, digest_of, tools_digest
from collector.request_dialogue import is_system

Message = Mapping[str, object]


class TurnMessages(NamedTuple):
    """What was said before a turn, and its reply where that is logged in chat form."""

    said: tuple[bytes, ...]
    """Fingerprint after each message that is not a system message, and before the first."""
    each: tuple[bytes, ...]
    """Fingerprint of each of those messages alone."""
    replies: tuple[int, ...]
    """Which of them are the assistant's."""
    system: bytes
    """Fingerprint of system messages and tools."""
    reply: bytes | None
    """Fingerprint of the reply alone."""
    reasoned: bool
    """Whether the reply, as logged, holds thinking."""
    calls: str
    """The reply's tool calls, as they are spelled."""
    said_calls: tuple[str, ...]
    """The tool calls of each message, as they are spelled."""
    said_reasoned: tuple[bool, ...]
    """Whether each message holds thinking."""


class Told(NamedTuple):
    """What messages say of which earlier turn goes on."""

    known: bool
    """Whether the turn is among `places`, or is none if there are none; otherwise ids decide among them."""
    places: tuple[int, ...]


def turn_messages(request: str | None, response: str | None) -> TurnMessages | None:
    """Reads `request` and `response`, JSON texts; None where there are no messages in chat form."""
    try:
        return _turn_messages(_object(request), _object(response))
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None


# Any: JSON objects.
def _turn_messages(asked: dict[str, Any], reply: dict[str, Any]) -> TurnMessages | None:
    found = asked.get("messages")
    if not isinstance(found, list) or not found:
        return None
    messages = [cast(Message, each) for each in cast(list[Any], found) if isinstance(each, dict)]
    spoken = [message for message in messages if not is_system(message)]
    answered = bool(reply.get("role") == "assistant" or reply.get("content") or reply.get("tool_calls"))
    tools = asked.get("tools")
    known = [cast(Message, each) for each in cast(list[Any], tools)] if isinstance(tools, list) else None
    each = tuple(digest_of(message).less_arguments for message in spoken)
    return TurnMessages(
        said=tuple(chain(each)),
        each=each,
        replies=tuple(place for place, message in enumerate(spoken) if message.get("role") == "assistant"),
        system=chain(digest_of(message).whole for message in messages if is_system(message))[-1] + tools_digest(known),
        reply=digest_of({**reply, "role": "assistant"}).less_arguments if answered else None,
        reasoned=bool(reasoning_of(reply)),
        calls=_spelled(reply),
        said_calls=tuple(_spelled(message) for message in spoken),
        said_reasoned=tuple(bool(reasoning_of(message)) for message in spoken),
    )


def continued_by_messages(current: TurnMessages | None, earlier: Sequence[TurnMessages | None]) -> Told:
    """Which of some earlier turns the current one continues, as far as messages can tell."""
    everything = tuple(range(len(earlier)))
    if current is None or not any(earlier):
        return Told(False, everything)
    if not current.replies:
        return Told(True, ())
    # What was said before the earlier turn comes first, and an answer follows: the longest such is continued.
    begun = {current.said[place]: place for place in current.replies}
    lengths = {
        number: begun[each.said[-1]]
        for number, each in enumerate(earlier)
        if each is not None and each.said[-1] in begun
    }
    if lengths:
        longest = max(lengths.values())
        fitting = [number for number, length in lengths.items() if length == longest]
        answered = [number for number in fitting if _reply_of(earlier[number]) == current.each[longest]]
        return Told(True, tuple(answered or fitting))
    answers = {current.each[place]: place for place in current.replies}
    quoted = {number: answers[reply] for number, each in enumerate(earlier) if (reply := _reply_of(each)) in answers}
    if quoted:
        latest = max(quoted.values())
        return Told(True, tuple(number for number, place in quoted.items() if place == latest))
    asked = {each.each[-1] for each in earlier if each is not None and each.each}
    if any(place and current.each[place - 1] in asked for place in current.replies):
        # An answer to what was asked here before comes back, though replies are not logged: history was cut short.
        return Told(False, everything)
    # Who continues a turn has at least one answer more than it had.
    return Told(
        False,
        tuple(
            number for number, each in enumerate(earlier) if each is None or len(each.replies) < len(current.replies)
        ),
    )


def kind_by_messages(previous: TurnMessages | None, current: TurnMessages | None, *, in_prompt: bool) -> str:
    """The kind of a break as far as messages can tell it."""
    if previous is None or current is None:
        return "other"
    if in_prompt and previous.system != current.system:
        return "system_prompt_changed"
    if len(current.replies) <= len(previous.replies):
        return "compaction" if in_prompt else "other"
    place = len(previous.each)
    if previous.reply is None or place >= len(current.each) or current.each[place] != previous.reply:
        return "other"
    if previous.reasoned and not current.said_reasoned[place]:
        return "reasoning_stripped"
    return "tool_call_reserialized" if previous.calls != current.said_calls[place] else "other"


def _reply_of(messages: TurnMessages | None) -> bytes | None:
    return None if messages is None else messages.reply


# Any: a JSON object before it is looked at.
def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _spelled(message: Message) -> str:
    """Arguments of the tool calls as text; those given as an object in one fixed spelling."""
    functions = [cast(dict[str, Any], call.get("function") or {}) for call in tool_calls_of(message)]
    written = [each.get("arguments") for each in functions]
    return "\n".join(each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in written)
