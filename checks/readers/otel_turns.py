"""A span of a model call as a turn: OpenTelemetry's GenAI attributes, old and new, and OpenInference's."""

from collections.abc import Iterator, Mapping
from itertools import groupby

from checks.readers.chat_call import choice_fields
from checks.readers.fields import Json, finish, listed, mapping, number, text, token_ids, whole
from checks.readers.lines import decode_json
from checks.readers.messages import said
from checks.readers.otel_spans import Span
from checks.rows import TurnRow

_CALLS = ("chat", "text_completion", "generate_content", "completion")
_SIGNS = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.prompt",
    "gen_ai.prompt.0.role",
    "prompt_token_ids",
    "llm.token_count.prompt",
)
"""What only a model call has, where the span does not name its operation."""
_IDS = {
    "prompt": ("prompt_token_ids", "llm.hosted_vllm.prompt_token_ids"),
    "completion": ("response_token_ids", "llm.hosted_vllm.response_token_ids"),
}


def is_call(span: Span) -> bool:
    """Whether a span is one model call and not the agent, chain or tool around it."""
    held = span.attributes
    kind = held.get("openinference.span.kind")
    if isinstance(kind, str):
        return kind.upper() == "LLM"
    operation = held.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return operation in _CALLS
    return any(sign in held for sign in _SIGNS)


def session_of(span: Span) -> str | None:
    """The conversation, where the span names one; else its trace."""
    named = (
        text(span.attributes.get(name)) for name in ("gen_ai.conversation.id", "session.id", "langfuse.session.id")
    )
    return next((each for each in named if each), span.trace_id)


def turn_of(span: Span, *, session: str, place: str, api: str) -> TurnRow | None:
    """The turn that a span is, None where it is no model call."""
    if not is_call(span):
        return None
    held = span.attributes
    reply = _reply(held)
    asked = _asked(held)
    return TurnRow(
        session_id=session,
        turn_id=span.span_id,
        base_model=_text(held, "gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
        api=api,
        started_at=span.started_at,
        finished_at=span.finished_at,
        prompt_ids=_token_ids(held, "prompt"),
        completion_ids=_token_ids(held, "completion"),
        sampled_logprobs=_logprobs(held),
        temperature=_number(held, "gen_ai.request.temperature"),
        top_p=_number(held, "gen_ai.request.top_p"),
        top_k=_whole(held, "gen_ai.request.top_k"),
        presence_penalty=_number(held, "gen_ai.request.presence_penalty"),
        frequency_penalty=_number(held, "gen_ai.request.frequency_penalty"),
        max_tokens=_whole(held, "gen_ai.request.max_tokens"),
        finish_reason="error" if span.failed else finish(_finish(held)),
        stated_prompt_tokens=_whole(
            held, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"
        ),
        stated_completion_tokens=_whole(
            held, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"
        ),
        cached_tokens=_whole(
            held,
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "llm.token_count.prompt_details.cache_read",
        ),
        complete=False if span.failed else None,
        request={"messages": asked} if asked else None,
        response=reply[0] if reply else None,
        prompt_text=None if asked else _text(held, "gen_ai.prompt", "input.value"),
        completion_text=None if reply else _text(held, "gen_ai.completion", "output.value"),
        place=place,
    )


def _asked(held: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The messages of the request, from whichever convention has them."""
    system = _decoded(held.get("gen_ai.system_instructions"))
    instructions = system if isinstance(system, str) else said(_parts(system))
    before: list[dict[str, Json]] = [{"role": "system", "content": instructions}] if instructions else []
    for name in ("gen_ai.input.messages", "gen_ai.prompt"):
        found = _messages(held, name)
        if found:
            return before + found
    return before + _messages(held, "llm.input_messages")


def _reply(held: Mapping[str, Json]) -> list[dict[str, Json]]:
    for name in ("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages"):
        found = _messages(held, name)
        if found:
            return [{"role": "assistant", **each} for each in found]
    return []


def _messages(held: Mapping[str, Json], name: str) -> list[dict[str, Json]]:
    """Messages from one attribute with JSON, or from an attribute for each of their fields."""
    whole_value = _decoded(held.get(name))
    found = [mapping(each) for each in listed(whole_value)] if isinstance(whole_value, list) else []
    return [_message(each) for each in found or _numbered(held, name) if each]


def _numbered(held: Mapping[str, Json], name: str) -> list[dict[str, Json]]:
    """`name.0.role`, `name.0.message.content`, `name.1.tool_calls.0.name`: nested again."""
    split = sorted(
        (int(index), field.removeprefix("message."), value)
        for index, field, value in _fields(held, name)
        if field != "message"
    )
    return [
        _one({field: value for _, field, value in fields}) for _, fields in groupby(split, key=lambda each: each[0])
    ]


def _fields(held: Mapping[str, Json], name: str) -> Iterator[tuple[str, str, Json]]:
    for key, value in held.items():
        if key.startswith(f"{name}."):
            index, dot, field = key[len(name) + 1 :].partition(".")
            if dot and index.isdecimal() and len(index) < 7:
                yield index, field, value


def _one(fields: Mapping[str, Json]) -> dict[str, Json]:
    message = {name: value for name, value in fields.items() if "." not in name}
    for part in ("tool_calls", "contents"):
        inner = [
            {name.rsplit(".", 1)[-1]: value for name, value in each}
            for each in _by_index({name: value for name, value in fields.items() if name.startswith(f"{part}.")}, part)
        ]
        if inner:
            message[part] = inner
    return message


def _by_index(fields: Mapping[str, Json], part: str) -> Iterator[list[tuple[str, Json]]]:
    split = sorted((int(index), field, value) for index, field, value in _fields(fields, part))
    for _, each in groupby(split, key=lambda found: found[0]):
        yield [(field, value) for _, field, value in each]


def _message(given: Mapping[str, Json]) -> dict[str, Json]:
    """A message of either convention as a chat message."""
    parts = _parts(given.get("parts"))
    calls = [each for each in parts if each.get("type") == "tool_call"] or [
        mapping(each) for each in listed(given.get("tool_calls"))
    ]
    answer = next((each for each in parts if each.get("type") == "tool_call_response"), None)
    message: dict[str, Json] = {"role": text(given.get("role")), "content": _content(given, parts)}
    if answer is not None:
        result = answer.get("result", answer.get("response"))
        message |= {"role": "tool", "tool_call_id": answer.get("id"), "content": result}
    elif given.get("tool_call_id") is not None:
        message["tool_call_id"] = given["tool_call_id"]
    thought = said({"text": each.get("content")} for each in parts if each.get("type") == "reasoning")
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = [_call(each) for each in calls]
    return message


def _content(given: Mapping[str, Json], parts: list[dict[str, Json]]) -> Json:
    if parts:
        return said({"text": each.get("content")} for each in parts if each.get("type") == "text")
    if given.get("content") is None and given.get("contents"):
        return said(_parts(given["contents"]))
    return given.get("content")


def _call(given: Mapping[str, Json]) -> dict[str, Json]:
    inner = mapping(given.get("function") or mapping(given.get("tool_call")).get("function")) or given
    function = {"name": inner.get("name"), "arguments": inner.get("arguments")}
    return {"type": "function", "id": given.get("id"), "function": function}


def _parts(value: Json) -> list[dict[str, Json]]:
    """Parts; their text stands under `content` or `text`."""
    found = [mapping(each) for each in listed(value)]
    return [{**each, "text": each.get("text", each.get("content"))} for each in found if each]


def _token_ids(held: Mapping[str, Json], which: str) -> list[int] | None:
    """Ids from the attributes that Agent Lightning and vLLM give, as a list or as its JSON."""
    for name in _IDS[which]:
        value = _decoded(held.get(name))
        if isinstance(value, list) and value and isinstance(value[0], list):
            value = value[0]  # pyright: ignore[reportUnknownVariableType]
        if value:
            return token_ids(value, name)
    return None


def _logprobs(held: Mapping[str, Json]) -> list[float] | None:
    content = _decoded(held.get("logprobs.content"))
    if content is None:
        content = [fields for fields in _numbered(held, "logprobs.content") if "logprob" in fields]
    return choice_fields({"logprobs": {"content": content}}, {})["sampled_logprobs"] if content else None


def _finish(held: Mapping[str, Json]) -> Json:
    """The first of the finish reasons."""
    value = _decoded(held.get("gen_ai.response.finish_reasons"))
    first = next(iter(listed(value)), value)
    return first if first is not None else held.get("gen_ai.completion.0.finish_reason")


def _decoded(value: Json) -> Json:
    """What an attribute holds: JSON where it is text that is some, since attributes cannot nest."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return decode_json(value.encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return value
    return value


def _text(held: Mapping[str, Json], *names: str) -> str | None:
    return next((found for name in names if (found := text(held.get(name))) is not None), None)


def _number(held: Mapping[str, Json], name: str) -> float | None:
    return number(held.get(name), name)


def _whole(held: Mapping[str, Json], *names: str) -> int | None:
    return next((found for name in names if (found := whole(held.get(name), name)) is not None), None)
