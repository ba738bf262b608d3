"""Whether a family does with a model what the model's own template does, shown on a handful of conversations."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from collector.conversation import Reply, ToolCall
from collector.parsing.call_syntax import CallSyntax
from collector.parsing.reply import ReplyParser
from collector.records import ChatRequest
from collector.rendering.family import Family, FamilyError, Tools
from collector.rendering.renderer import Renderer
from collector.rendering.splice import Ancestor, Extension, extend
from collector.rendering.template import RenderError

Ending = tuple[int, str]
"""The id that ends a reply, and the role of the message that follows it."""

_TOOLS: list[dict[str, object]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city – today",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
]
_ARGUMENTS: list[dict[str, object]] = [{"city": "Tromsø"}, {"city": 'a "b" <c> & {d}', "days": 3}]
_SYSTEM: dict[str, object] = {"role": "system", "content": "You help."}

_HI: dict[str, object] = {"role": "user", "content": "Hi – naïve 🙂\n  there"}


class Proof(NamedTuple):
    """What was found of a family. A reason says what differed; None that nothing did."""

    first_turns: str | None
    """Whole prompts of first turns. The template writes them in any case, and is right by definition."""
    next_turns: str | None
    """What follows a reply, against what the splice gets out of the template."""
    calls: str | None
    """Tool calls as the template writes them, read back."""
    endings: frozenset[Ending] = frozenset()
    """Where what follows was compared, and the same."""


def prove(
    renderer: Renderer,
    family: Family,
    syntax: Callable[[Tools], CallSyntax],
    variables: Mapping[str, object] | None = None,
) -> Proof:
    """Compares a family with the renderer's template, which knows nothing of it. `syntax` is of the tools given."""
    next_turns, endings = _next_turns(renderer, family, variables)
    return Proof(_first_turns(renderer, family, variables), next_turns, _calls(renderer, syntax(_TOOLS)), endings)


def _first_turns(renderer: Renderer, family: Family, variables: Mapping[str, object] | None) -> str | None:
    for tools in (None, _TOOLS):
        for messages in ([_HI], [_SYSTEM, _HI]):
            try:
                text = renderer.text(messages, tools=tools, variables=variables)
            except RenderError:
                continue
            shown = tools if renderer.template.abilities.tools else None
            try:
                ids = family.whole(renderer.spelled(messages, tools), shown)
            except FamilyError as error:
                return str(error)
            if ids != renderer.tokenizer.encode(text):
                return _difference(renderer.tokenizer.decode(ids), text)
    return None


def _next_turns(
    renderer: Renderer, family: Family, variables: Mapping[str, object] | None
) -> tuple[str | None, frozenset[Ending]]:
    same: set[Ending] = set()
    differing: dict[Ending, str] = {}
    for chat, ancestor, prompt_ids, completion in _continued(renderer, variables):
        step = extend(renderer, chat, ancestor, "keep")
        if not isinstance(step, Extension):
            continue
        new = renderer.spelled(chat.messages, chat.tools)[-(len(chat.messages) - ancestor.message_count - 1) :]
        shown = chat.tools if renderer.template.abilities.tools else None
        following = family.following(prompt_ids, completion, new, shown)
        if following is None:
            continue
        ending = (ancestor.last_id, str(chat.messages[ancestor.message_count + 1]["role"]))
        same.add(ending)
        if following != step.new_ids:
            decode = renderer.tokenizer.decode
            differing.setdefault(ending, _difference(decode(following), decode(step.new_ids)))
    endings = frozenset(same - differing.keys())
    nothing = next(iter(differing.values()), "there is no reply after which both say what follows")
    return None if endings else nothing, endings


def _continued(
    renderer: Renderer, variables: Mapping[str, object] | None
) -> "list[tuple[ChatRequest, Ancestor, list[int], list[int]]]":
    """Requests that go on from a reply, ended by each stop token."""
    tokenizer = renderer.tokenizer
    found: list[tuple[ChatRequest, Ancestor, list[int], list[int]]] = []
    for tools, reply, following in _exchanges():
        for history in ([_HI], [_SYSTEM, _HI]):
            messages = [*history, reply.message(), *following]
            chat = ChatRequest(messages=messages, tools=tools, chat_template_kwargs=dict(variables or {}) or None)
            try:
                text = renderer.text(history, tools=tools, variables=variables)
            except RenderError:
                continue
            said = "It is so."
            if reply.reasoning is not None:
                opening = "" if text.rstrip().endswith("<think>") else "<think>\n"
                said = f"{opening}{reply.reasoning}\n</think>\n\n{said}"
            for stop in sorted(tokenizer.stop_ids & tokenizer.added.keys()):
                completion = [*tokenizer.encode(said), stop]
                ancestor = Ancestor(stop, len(history), reply, chat.chat_template_kwargs, len(completion))
                found.append((chat, ancestor, tokenizer.encode(text), completion))
    return found


def _exchanges() -> list[tuple[list[dict[str, object]] | None, Reply, list[dict[str, object]]]]:
    """Tools, a reply, and what is said after it."""
    plain = Reply(content="It is so.")
    thought = Reply(content="It is so.", reasoning="Hm.")
    asked: list[list[dict[str, object]]] = [[_HI], [_user("  ")], [_user("\nMore?  \n"), _HI]]
    exchanges: list[tuple[list[dict[str, object]] | None, Reply, list[dict[str, object]]]] = []
    for tools in (None, _TOOLS):
        exchanges += [(tools, reply, following) for reply in (plain, thought) for following in asked]
    for reasoning in (None, "Hm."):
        calling, both = _reply_with_calls(1, reasoning), _reply_with_calls(2, reasoning)
        exchanges += [
            (_TOOLS, calling, [_result(0, "rain ")]),
            (_TOOLS, calling, [_result(0, ""), _HI]),
            (_TOOLS, both, [_result(0, '{"a": [1, "ü"]}\n'), _result(1, "\n snow")]),
        ]
    return exchanges


def _reply_with_calls(count: int, reasoning: str | None = None) -> Reply:
    calls = [
        ToolCall(id=f"functions.get_weather:{place}", name="get_weather", arguments=json.dumps(_ARGUMENTS[place]))
        for place in range(count)
    ]
    return Reply(content="It is so.", reasoning=reasoning, tool_calls=tuple(calls))


def _user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def _result(place: int, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": f"functions.get_weather:{place}", "content": text}


def _calls(renderer: Renderer, syntax: CallSyntax) -> str | None:
    reply = _reply_with_calls(2)
    messages: list[dict[str, Any]] = [_HI, reply.message(), _result(0, "rain"), _result(1, "snow")]
    try:
        text = renderer.text(messages, tools=_TOOLS)
    except RenderError as error:
        return f"the template does not write tool calls: {error}"
    _, _, after = text.rpartition(reply.content)
    parser = ReplyParser(seed="proof", thinking_open=False, parse_tools=True, syntax=syntax)
    parser.add(after)
    parser.finish()
    read = [(call.name, json.loads(call.arguments)) for call in parser.reply().tool_calls]
    written = [("get_weather", arguments) for arguments in _ARGUMENTS]
    return None if read == written else f"calls that the template writes are read as {read!r}"[:300]


def _difference(found: str, expected: str) -> str:
    pairs = enumerate(zip(found, expected, strict=False))
    place = next((n for n, (a, b) in pairs if a != b), min(len(found), len(expected)))
    start = max(0, place - 12)
    return f"it writes {found[start : place + 24]!r} where the template writes {expected[start : place + 24]!r}"
