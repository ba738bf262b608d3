"""The messages of a turn: what its request adds to the turn before, and the reply."""

from typing import Any, cast

import msgspec
import polars as pl

from collector.conversation import reasoning_of, tool_calls_of

MOST_CHARS = 4_000
"""Characters of one message that are kept."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. Text is as it was logged: escape it where it is shown."""

    role: str
    text: str | None
    reasoning: str | None = None
    calls: tuple[str, ...] = ()
    """Tool calls: the name and the arguments as they are spelled."""
    cut_chars: int = 0
    """Characters that are left out here."""


class NewMessages(msgspec.Struct, frozen=True):
    """What is new in a turn."""

    messages: tuple[Message, ...]
    earlier: int
    """Messages before them."""


def new_messages(turns: pl.DataFrame, row: int, parent: int | None) -> NewMessages:
    """The messages that a turn's request has beyond those of its parent's request and reply, and its own reply.

    Where the log has text only: the text.
    """
    turn = turns.row(row, named=True)
    asked = _messages(turn["request"])
    earlier = 0
    if parent is not None:
        before = _messages(turns.row(parent, named=True)["request"])
        if before and len(asked) > len(before):
            # The parent's reply is the first message after its request.
            earlier = len(before) + 1
    said = [_message(each) for each in asked[earlier:]]
    if not asked and turn["prompt_text"] is not None:
        said.append(_text("prompt", turn["prompt_text"]))
    reply = _object(turn["response"])
    if reply:
        said.append(_message({**reply, "role": reply.get("role") or "assistant"}))
    elif turn["completion_text"] is not None:
        said.append(_text("completion", turn["completion_text"]))
    return NewMessages(tuple(said), earlier)


# Any: JSON as it was logged.
def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _messages(request: str | None) -> list[dict[str, Any]]:
    found = _object(request).get("messages")
    return (
        [cast(dict[str, Any], each) for each in cast(list[Any], found) if isinstance(each, dict)]
        if isinstance(found, list)
        else []
    )


def _message(message: dict[str, Any]) -> Message:
    content: Any = message.get("content")
    text = content if isinstance(content, str) else _parts(content)
    error: Any = message.get("error")
    if text is None and error is not None:
        text = error if isinstance(error, str) else msgspec.json.encode(error).decode()
    try:
        reasoning, calls = reasoning_of(message), tuple(_call(each) for each in tool_calls_of(message))
    except (AttributeError, TypeError):  # of another shape than a chat's
        reasoning, calls = None, ()
    made = _text(str(message.get("role") or "?"), text)
    return msgspec.structs.replace(made, reasoning=(reasoning or None) and reasoning[:MOST_CHARS], calls=calls)


def _parts(content: Any) -> str | None:
    """The text of a list of parts; other parts by their type."""
    if not isinstance(content, list):
        return None if content is None else str(content)
    texts: list[str] = []
    for each in cast(list[Any], content):
        part = cast(dict[str, Any], each) if isinstance(each, dict) else {"text": str(each)}
        text = part.get("text")
        texts.append(text if isinstance(text, str) else f"[{part.get('type') or 'part'}]")
    return "".join(texts)


def _call(call: Any) -> str:
    function = cast(dict[str, Any], cast(dict[str, Any], call).get("function") or {})
    arguments: Any = function.get("arguments")
    written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return f"{function.get('name') or '?'}({written[:MOST_CHARS]})"


def _text(role: str, text: str | None) -> Message:
    if text is None:
        return Message(role=role, text=None)
    return Message(role=role, text=text[:MOST_CHARS], cut_chars=max(0, len(text) - MOST_CHARS))
