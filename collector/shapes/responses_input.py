"""The input items of a response in chat form."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from collector.refusal import Refusal
from collector.shapes.reading import check_depth

_SEALED = "roundhouse."
_TEXT_PARTS = ("input_text", "output_text", "text")


class Tools(NamedTuple):
    """The tools of a request."""

    functions: list[dict[str, Any]]
    """In chat form."""
    told: list[dict[str, Any]]
    """The same as the client sent them."""
    left_out: tuple[str, ...]
    """Names or types of those that are not functions."""


def sealed(thinking: str) -> str:
    """Thinking as `encrypted_content`: a client that gets it back to send was shown the text anyway."""
    return _SEALED + base64.urlsafe_b64encode(thinking.encode()).decode()


def chat_messages(instructions: str | None, items: str | list[Any]) -> list[dict[str, Any]]:
    """The conversation in chat form; Refusal for what it cannot hold."""
    chat: list[dict[str, Any]] = []
    if instructions:
        chat.append({"role": "system", "content": instructions})
    if isinstance(items, str):
        return [*chat, {"role": "user", "content": items}]
    for place, item in enumerate(items):
        where = f"input[{place}]"
        if not isinstance(item, dict):
            raise wrong(where, "is not an object")
        known = cast(dict[str, Any], item)
        check_depth(where, known)
        _add(chat, where, known)
    return chat


def chat_tools(tools: Sequence[Any]) -> Tools:
    """Function tools in chat form, and the names of the others."""
    functions: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    left_out: list[str] = []
    for place, tool in enumerate(tools):
        where = f"tools[{place}]"
        check_depth(where, tool)
        kind = cast(dict[str, Any], tool).get("type") if isinstance(tool, dict) else None
        if not isinstance(kind, str):
            raise wrong(where, "is not {type, …}")
        given = cast(dict[str, Any], tool)
        if kind != "function":
            left_out.append(str(given.get("name") or kind))
            continue
        if not isinstance(given.get("name"), str):
            raise wrong(f"{where}.name", "is missing, expected the function's name")
        function = {key: given[key] for key in ("name", "description", "parameters") if given.get(key) is not None}
        functions.append({"type": "function", "function": function})
        told.append(given)
    return Tools(functions, told, tuple(left_out))


def wrong(param: str, found: str) -> Refusal:
    """400 for one part of the request."""
    return Refusal.invalid(f"{param} {found}", param=param, code="invalid_value")


def _add(chat: list[dict[str, Any]], where: str, item: dict[str, Any]) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        _add_message(chat, where, item)
    elif kind == "reasoning":
        thought = _thinking(where, item)
        said = _assistant(chat)
        if thought is not None:
            said["reasoning_content"] = said.get("reasoning_content", "") + thought
    elif kind == "function_call":
        _assistant(chat).setdefault("tool_calls", []).append(_tool_call(where, item))
    elif kind == "function_call_output":
        if not isinstance(item.get("call_id"), str):
            raise wrong(f"{where}.call_id", "is missing, expected the id of a function_call")
        output = _content(f"{where}.output", item.get("output"))
        chat.append({"role": "tool", "tool_call_id": item["call_id"], "content": output})
    else:
        raise wrong(
            f"{where}.type",
            f"is {str(kind)[:40]!r}, expected message, reasoning, function_call or function_call_output: "
            "nothing but the input itself is kept between requests, and only functions are run",
        )


def _add_message(chat: list[dict[str, Any]], where: str, item: dict[str, Any]) -> None:
    role = item.get("role")
    if role not in ("system", "developer", "user", "assistant"):
        raise wrong(f"{where}.role", f"is {str(role)[:40]!r}, expected system, developer, user or assistant")
    content = _content(f"{where}.content", item.get("content"))
    if role != "assistant":
        chat.append({"role": role, "content": content})
        return
    said = _assistant(chat)
    said["content"] += content if isinstance(content, str) else "".join(part["text"] for part in content)


def _assistant(chat: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant message under way: all that a model said in a row is one."""
    if not chat or chat[-1]["role"] != "assistant":
        chat.append({"role": "assistant", "content": ""})
    return chat[-1]


def _thinking(where: str, item: dict[str, Any]) -> str | None:
    """The text of a reasoning item, shown or sealed here; None where only another service could read it."""
    content = item.get("content")
    if isinstance(content, list) and content:
        texts = [_text_of(f"{where}.content[{n}]", part, ("reasoning_text", "text")) for n, part in _numbered(content)]
        return "".join(texts)
    hidden = item.get("encrypted_content")
    if not isinstance(hidden, str) or not hidden.startswith(_SEALED):
        return None
    try:
        return base64.b64decode(hidden[len(_SEALED) :], altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise wrong(f"{where}.encrypted_content", "is damaged, expected it as it was given out") from error


def _tool_call(where: str, item: dict[str, Any]) -> dict[str, Any]:
    call_id, name, arguments = item.get("call_id"), item.get("name"), item.get("arguments")
    if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(arguments, str)):
        raise wrong(where, "is not {type: function_call, call_id, name, arguments}")
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _content(where: str, content: Any) -> str | list[dict[str, Any]]:  # Any: JSON as it came
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise wrong(where, "expected text or a list of text parts")
    texts = [_text_of(f"{where}[{n}]", part, _TEXT_PARTS) for n, part in _numbered(content)]
    if len(texts) > 1:
        return [{"type": "text", "text": text} for text in texts]
    return texts[0] if texts else ""


def _numbered(parts: Any) -> enumerate[Any]:  # Any: JSON as it came
    return enumerate(cast(list[Any], parts))


def _text_of(where: str, part: Any, kinds: Sequence[str]) -> str:  # Any: JSON as it came
    found = cast(dict[str, Any], part) if isinstance(part, dict) else {}
    kind = found.get("type")
    if kind not in kinds or not isinstance(found.get("text"), str):
        named = str(kind)[:40]
        raise wrong(where, f"is of type {named!r}, expected {kinds[0]}; images, audio and files are not supported")
    return found["text"]
