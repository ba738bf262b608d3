"""Messages of other APIs as chat messages: Anthropic's content blocks and the items of OpenAI's Responses."""

from collections.abc import Iterable, Iterator, Sequence

from checks.readers.fields import Json, JsonObject, listed, mapping, text

_MODEL_ITEMS = ("reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_TOOL_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def blocks(content: Json) -> list[dict[str, Json]]:
    """The parts of a message's content; plain text is one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [mapping(each) for each in listed(content)]


def said(parts: Iterable[JsonObject]) -> str:
    """The text of some parts."""
    return "".join(each["text"] for each in parts if isinstance(each.get("text"), str))


def assistant_message(parts: Sequence[JsonObject]) -> dict[str, Json]:
    """Anthropic's blocks of one reply as a chat message."""
    thought = "".join(each["thinking"] for each in parts if isinstance(each.get("thinking"), str))
    calls = [
        _call(each.get("id"), each.get("name"), each.get("input")) for each in parts if each.get("type") == "tool_use"
    ]
    return _assistant(said(each for each in parts if each.get("type") == "text"), thought, calls)


def user_messages(parts: Sequence[JsonObject]) -> list[dict[str, Json]]:
    """Anthropic's blocks of one request as chat messages: each tool's result, then the text."""
    made: list[dict[str, Json]] = [
        {"role": "tool", "tool_call_id": each.get("tool_use_id"), "content": said(blocks(each.get("content")))}
        for each in parts
        if each.get("type") == "tool_result"
    ]
    other = [each for each in parts if each.get("type") != "tool_result"]
    return [*made, {"role": "user", "content": said(other)}] if other else made


def is_model_item(item: JsonObject) -> bool:
    """Whether an item of the Responses API was said by the model."""
    return item.get("type") in _MODEL_ITEMS or (
        item.get("type", "message") == "message" and item.get("role") == "assistant"
    )


def item_message(items: Sequence[JsonObject]) -> dict[str, Json]:
    """The items that the model said in one call as one chat message."""
    thought = "".join(
        said(blocks(each.get("content"))) or said(blocks(each.get("summary")))
        for each in items
        if each.get("type") == "reasoning"
    )
    spoken = "".join(said(blocks(each.get("content"))) for each in items if each.get("type", "message") == "message")
    calls = [
        _call(each.get("call_id"), each.get("name") or "local_shell", _asked(each))
        for each in items
        if each.get("type") in ("function_call", "custom_tool_call", "local_shell_call")
    ]
    return _assistant(spoken, thought, calls)


def chat_messages(items: Iterable[JsonObject]) -> Iterator[dict[str, Json]]:
    """Items of the Responses API as chat messages, those of each reply together."""
    reply: list[JsonObject] = []
    for item in items:
        if is_model_item(item):
            reply.append(item)
            continue
        if reply:
            yield item_message(reply)
            reply = []
        if item.get("type", "message") == "message":
            yield {"role": text(item.get("role")), "content": said(blocks(item.get("content")))}
        elif item.get("type") in _TOOL_OUTPUTS:
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": _output(item.get("output"))}
    if reply:
        yield item_message(reply)


def _asked(item: JsonObject) -> Json:
    return next((item[name] for name in ("arguments", "input", "action") if item.get(name) is not None), None)


def _output(output: Json) -> Json:
    inner = mapping(output).get("content")
    return output if isinstance(output, str) else said(blocks(output if inner is None else inner))


def _call(identifier: Json, name: Json, arguments: Json) -> dict[str, Json]:
    return {"type": "function", "id": identifier, "function": {"name": name, "arguments": arguments}}


def _assistant(spoken: str, thought: str, calls: list[dict[str, Json]]) -> dict[str, Json]:
    message: dict[str, Json] = {"role": "assistant", "content": spoken}
    if thought:
        message["reasoning_content"] = thought
    return message | ({"tool_calls": calls} if calls else {})
