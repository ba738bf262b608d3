"""Anthropic's conversation in chat form: content blocks become chat messages."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from collector.refusal import Refusal
from collector.shapes.reading import check_depth

_ATTRIBUTION = "x-anthropic-billing-header:"
"""How Claude Code's first system block begins. It is a header that differs from request to request, not a word to the
model: it is neither rendered nor stored."""

_SESSION_SUFFIX = re.compile(r"_session_([0-9A-Za-z-]{8,64})\Z")
_LONGEST_SESSION = 256


class Tools(NamedTuple):
    """The tools of a request."""

    functions: list[dict[str, Any]]
    """In chat form."""
    left_out: tuple[str, ...]
    """Names of those that the client does not run itself."""


def chat_messages(system: str | list[Any] | None, messages: Sequence[Any]) -> list[dict[str, Any]]:
    """The conversation in chat form; Refusal for what it cannot hold."""
    chat: list[dict[str, Any]] = []
    instructions = _system_content(system)
    if instructions:
        chat.append({"role": "system", "content": instructions})
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        if not isinstance(message, dict):
            raise wrong(where, "is not an object")
        known = cast(dict[str, Any], message)
        check_depth(where, known)
        _add(chat, where, known)
    return chat


def chat_tools(tools: Sequence[Any]) -> Tools:
    """Function tools in chat form, and the names of the others."""
    functions: list[dict[str, Any]] = []
    left_out: list[str] = []
    for place, tool in enumerate(tools):
        where = f"tools[{place}]"
        check_depth(where, tool)
        if not isinstance(tool, dict) or not isinstance(cast(dict[str, Any], tool).get("name", ""), str):
            raise wrong(where, "is not {name, description, input_schema}")
        told = cast(dict[str, Any], tool)
        if told.get("type") not in (None, "custom"):
            left_out.append(str(told.get("name") or told["type"]))
            continue
        if not told.get("name") or not isinstance(told.get("input_schema"), dict):
            raise wrong(where, "is not {name, description, input_schema}")
        function = {"name": told["name"], "description": told.get("description"), "parameters": told["input_schema"]}
        kept = {key: value for key, value in function.items() if value is not None}
        functions.append({"type": "function", "function": kept})
    return Tools(functions, tuple(left_out))


def session_of(user_id: object) -> str | None:
    """The session that Claude Code writes into `metadata.user_id`; None for any other text."""
    if not isinstance(user_id, str):
        return None
    name: object = None
    if user_id.startswith("{"):
        try:
            name = json.loads(user_id).get("session_id")
        except (ValueError, RecursionError):
            return None
    elif found := _SESSION_SUFFIX.search(user_id):
        name = found.group(1)
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_SESSION or not name.isprintable():
        return None
    return name


def wrong(param: str, found: str) -> Refusal:
    """400 for one part of the request."""
    return Refusal.invalid(f"{param} {found}", param=param, code="invalid_value")


def _system_content(system: str | list[Any] | None) -> str | list[dict[str, Any]]:
    if system is None or isinstance(system, str):
        return system or ""
    texts = [_text_of(f"system[{place}]", block) for place, block in enumerate(system)]
    return _content([text for text in texts if not text.startswith(_ATTRIBUTION)])


def _add(chat: list[dict[str, Any]], where: str, message: dict[str, Any]) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        raise wrong(f"{where}.role", f"is {str(role)[:40]!r}, expected user, assistant or system")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise wrong(f"{where}.content", "expected text or a list of content blocks")
    blocks = cast(list[Any], content)
    if role == "assistant":
        _add_assistant(chat, where, blocks)
    elif role == "system":
        texts = [_text_of(f"{where}.content[{n}]", block) for n, block in enumerate(blocks)]
        chat.append({"role": "system", "content": _content(texts)})
    else:
        _add_user(chat, where, blocks)


def _add_user(chat: list[dict[str, Any]], where: str, blocks: list[Any]) -> None:
    """Tool results become messages of their own, in the order they stand in."""
    texts: list[str] = []
    start = len(chat)
    for place, block in enumerate(blocks):
        at = f"{where}.content[{place}]"
        if not isinstance(block, dict) or cast(dict[str, Any], block).get("type") != "tool_result":
            texts.append(_text_of(at, block))
            continue
        if texts:
            chat.append({"role": "user", "content": _content(texts)})
            texts = []
        chat.append(_tool_result(at, cast(dict[str, Any], block)))
    if texts or len(chat) == start:
        chat.append({"role": "user", "content": _content(texts)})


def _tool_result(where: str, block: dict[str, Any]) -> dict[str, Any]:
    call_id, content = block.get("tool_use_id"), block.get("content")
    if not isinstance(call_id, str):
        raise wrong(f"{where}.tool_use_id", "is missing, expected the id of a tool_use block")
    if content is None or isinstance(content, str):
        written: str | list[dict[str, Any]] = content or ""
    elif isinstance(content, list):
        parts = cast(list[Any], content)
        written = _content([_text_of(f"{where}.content[{place}]", part) for place, part in enumerate(parts)])
    else:
        raise wrong(f"{where}.content", "expected text or a list of text blocks")
    result: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": written}
    return {**result, "is_error": True} if block.get("is_error") else result


def _add_assistant(chat: list[dict[str, Any]], where: str, blocks: list[Any]) -> None:
    """Assistant messages in a row are one, as in Anthropic's own API."""
    if chat and chat[-1]["role"] == "assistant":
        said = chat[-1]
    else:
        said: dict[str, Any] = {"role": "assistant", "content": ""}
        chat.append(said)
    for place, block in enumerate(blocks):
        at = f"{where}.content[{place}]"
        kind = cast(dict[str, Any], block).get("type") if isinstance(block, dict) else None
        if kind == "thinking":
            thought = cast(dict[str, Any], block).get("thinking")
            if not isinstance(thought, str):
                raise wrong(f"{at}.thinking", "is not text")
            said["reasoning_content"] = said.get("reasoning_content", "") + thought
        elif kind == "tool_use":
            said.setdefault("tool_calls", []).append(_tool_call(at, cast(dict[str, Any], block)))
        elif kind != "redacted_thinking":
            said["content"] += _text_of(at, block)


def _tool_call(where: str, block: dict[str, Any]) -> dict[str, Any]:
    call_id, name, given = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(call_id, str) or not isinstance(name, str) or not isinstance(given, dict):
        raise wrong(where, "is not {type: tool_use, id, name, input}")
    arguments = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _text_of(where: str, block: Any) -> str:  # Any: JSON as it came
    found = cast(dict[str, Any], block) if isinstance(block, dict) else {}
    if found.get("type") != "text":
        kind = str(found.get("type"))[:40]
        raise wrong(where, f"is of type {kind!r}, expected text; images, documents and server tools are not supported")
    if not isinstance(found.get("text"), str):
        raise wrong(f"{where}.text", "is not text")
    return found["text"]


def _content(texts: list[str]) -> str | list[dict[str, Any]]:
    """One text as it is, several as parts; cache marks are dropped, since they move from request to request."""
    if len(texts) > 1:
        return [{"type": "text", "text": text} for text in texts]
    return texts[0] if texts else ""
