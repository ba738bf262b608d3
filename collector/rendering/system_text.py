"""System messages in plain words, for models whose template takes one only, and only at the beginning."""

from itertools import takewhile
from typing import Any

_LATER = "<system-reminder>\n{text}\n</system-reminder>"


def one_system_message(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same conversation: those at the beginning are one, and later ones are said by the user, in tags.

    Contents are text already. What becomes of a message does not depend on later ones, so that prompts still extend.
    """
    first = [message["content"] for message in takewhile(_is_system, messages)]
    merged = [{"role": "system", "content": "\n\n".join(first)}] if first else []
    return [*merged, *map(_as_reminder, messages[len(first) :])]


def _is_system(message: dict[str, Any]) -> bool:
    return message["role"] == "system"


def _as_reminder(message: dict[str, Any]) -> dict[str, Any]:
    if not _is_system(message):
        return message
    return {"role": "user", "content": _LATER.format(text=message["content"])}
