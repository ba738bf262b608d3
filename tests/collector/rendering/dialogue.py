"""Plays a dialogue through the prompt builder: sampled text in, exact prompts out."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from collector.conversation import HistoryReasoning
from collector.parsing.call_syntax import JSON_CALLS
from collector.parsing.reply import ReplyParser
from collector.records import ChatRequest
from collector.rendering.prompt import Prompt, build_prompt
from collector.rendering.proven_family import ProvenFamily
from collector.rendering.renderer import Renderer
from collector.rendering.splice import Ancestor

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


class Played(NamedTuple):
    prompt: Prompt
    completion: list[int]
    whole_render: list[int]
    """What the template makes of the same messages, with nothing spliced."""
    chat: ChatRequest
    """What the client sent."""


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "content": text}


def play(
    renderer: Renderer,
    opening: list[dict[str, Any]],
    steps: Sequence[tuple[str, list[dict[str, Any]]]],
    *,
    tools: list[dict[str, Any]] | None = None,
    variables: dict[str, object] | None = None,
    history_reasoning: HistoryReasoning = "keep",
    client_keeps_thinking: bool = False,
    family: ProvenFamily | None = None,
    follows: bool = True,
    spell: Callable[[str], list[int]] | None = None,
    stop: str = "<|im_end|>",
) -> list[Played]:
    """One played turn per step: the sampled text, stop token included, and what the client says next.

    Without `follows` the family reads replies only, and what follows them is spliced. `spell` gives the ids that a
    text was sampled in, where they are not those that the tokenizer gives.
    """
    messages, ancestor, ids, played = list(opening), None, list[int](), list[Played]()
    for number, (sampled, following) in enumerate(steps):
        chat = ChatRequest(messages=messages, tools=tools, chat_template_kwargs=variables)
        prompt = build_prompt(
            renderer,
            chat,
            ancestor=ancestor,
            ancestor_ids=ids,
            history_reasoning=history_reasoning,
            family=family if follows else None,
        )
        completion = (spell or renderer.tokenizer.encode)(sampled)
        whole = renderer.tokenizer.encode(renderer.text(messages, tools=tools, variables=variables))
        played.append(Played(prompt, completion, whole, chat))
        syntax = family.syntax(tools) if family is not None else JSON_CALLS
        parser = ReplyParser(
            seed=str(number), thinking_open=prompt.thinking_open, parse_tools=bool(tools), syntax=syntax
        )
        parser.add(sampled.removesuffix(stop))
        parser.finish()
        message = parser.reply().message()
        if not client_keeps_thinking:
            message.pop("reasoning_content", None)
        ancestor = Ancestor(completion[-1], len(messages), parser.reply(), variables, len(completion))
        ids = [*prompt.ids, *completion]
        messages = [*messages, message, *following]
    return played


def extends(earlier: Played, later: Played) -> bool:
    """Whether the earlier turn's prompt and completion are a token prefix of the later one's prompt."""
    ids = [*earlier.prompt.ids, *earlier.completion]
    return later.prompt.ids[: len(ids)] == ids
