"""Conversation to text to ids, for one model folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from collector.conversation import content_text, reasoning_of, tool_calls_of, visible_text
from collector.rendering.system_text import one_system_message
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from collector.rendering.tool_text import spell_out


class Renderer:
    """A tokenizer and a chat template that belong together."""

    def __init__(self, tokenizer: ChatTokenizer, template: ChatTemplate) -> None:
        self.tokenizer = tokenizer
        self.template = template

    @classmethod
    def from_folder(cls, folder: Path, **limits: Any) -> "Renderer":
        """Loads both from a Hugging Face model folder; nothing in it is executed outside the sandbox."""
        tokenizer = ChatTokenizer.from_folder(folder)
        return cls(tokenizer, ChatTemplate.from_folder(folder, names=tokenizer.names, **limits))

    def text(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None,
        variables: Mapping[str, object] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt text, by default with the invitation to reply; RenderError when it cannot be rendered."""
        abilities = self.template.abilities
        plain = self.spelled(messages, tools)
        if abilities.content_parts:
            plain = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in plain]
        return self.template.render(
            plain,
            tools=list(tools) if tools and abilities.tools else None,
            variables=variables,
            add_generation_prompt=add_generation_prompt,
        )

    def spelled(
        self, messages: Sequence[Mapping[str, object]], tools: Sequence[Mapping[str, object]] | None
    ) -> list[dict[str, Any]]:
        """The conversation in the spelling that templates expect, with what this one ignores in plain words."""
        abilities = self.template.abilities
        plain = [self._for_template(message) for message in messages]
        if not abilities.late_system:
            plain = one_system_message(plain)
        return spell_out(plain, tools, abilities)

    def _for_template(self, message: Mapping[str, object]) -> dict[str, Any]:
        """The spelling templates expect: text content, no nulls, arguments as objects, one name for reasoning."""
        role = message.get("role")
        kept = {key: value for key, value in message.items() if value is not None}
        kept["role"] = "system" if role == "developer" else role
        kept["content"] = content_text(message)
        if role != "assistant":
            return kept
        reasoning = reasoning_of(message)
        if reasoning is not None:
            kept.pop("reasoning", None)
            kept |= {"content": visible_text(message), "reasoning_content": reasoning, "thinking": reasoning}
        calls = tool_calls_of(message)
        kept.pop("tool_calls", None)
        if calls:
            kept["tool_calls"] = [_with_object_arguments(call) for call in calls]
        return kept


def _with_object_arguments(call: dict[str, Any]) -> dict[str, Any]:
    function = cast(dict[str, Any], call.get("function") or {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return call
        if isinstance(parsed, dict):
            return {**call, "function": {**function, "arguments": parsed}}
    return call
