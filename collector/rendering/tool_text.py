"""Tools in plain words, for models whose template cannot express them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from collector.rendering.template import Abilities

_INTRODUCTION = (
    "You can use tools. These are their definitions, one JSON object a line:\n<tools>\n{tools}\n</tools>\n"
    "To use a tool, answer with its name and arguments as one JSON object between tags, like this:\n"
    '<tool_call>\n{{"name": "tool_name", "arguments": {{"argument": "value"}}}}\n</tool_call>\n'
    "The result comes back between <tool_response> and </tool_response>."
)


def spell_out(
    messages: Sequence[dict[str, Any]], tools: Sequence[Mapping[str, object]] | None, abilities: Abilities
) -> list[dict[str, Any]]:
    """The same conversation with everything about tools that the template ignores written as text."""
    spelled = list(messages)
    if not abilities.tool_calls:
        spelled = [_with_calls_as_text(message) for message in spelled]
    if not (abilities.tool_calls and abilities.tool_results):
        spelled = [_with_result_as_text(message) for message in spelled]
    if tools and not abilities.tools:
        spelled = _with_tools_in_system(spelled, tools)
    return spelled


def call_text(name: str, arguments: object) -> str:
    """One tool call in the wording that the reply parser reads back."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {written}}}\n</tool_call>'


def _with_tools_in_system(
    messages: list[dict[str, Any]], tools: Sequence[Mapping[str, object]]
) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    text = _INTRODUCTION.format(tools=lines)
    if messages and messages[0].get("role") == "system":
        return [{**messages[0], "content": f"{messages[0].get('content') or ''}\n\n{text}"}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _with_calls_as_text(message: dict[str, Any]) -> dict[str, Any]:
    calls = cast(list[dict[str, Any]], message.get("tool_calls") or [])
    if message.get("role") != "assistant" or not calls:
        return message
    parts = [str(message["content"])] if message.get("content") else []
    for call in calls:
        function = cast(dict[str, Any], call.get("function") or call)
        parts.append(call_text(str(function.get("name", "")), function.get("arguments") or {}))
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": "\n".join(parts)}


def _with_result_as_text(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") != "tool":
        return message
    return {"role": "user", "content": f"<tool_response>\n{message.get('content') or ''}\n</tool_response>"}
