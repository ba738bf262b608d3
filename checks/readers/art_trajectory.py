"""A trajectory of ART as turns: exchanges with a server, or messages with the choices that were sampled among them."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

from checks.readers.chat_call import choice_fields, reply_fields, request_fields, usage_fields
from checks.readers.fields import (
    Json,
    JsonObject,
    finish,
    floats,
    listed,
    mapping,
    objects,
    text,
    token_ids,
    when,
    whole,
)
from checks.readers.lines import decode_json
from checks.readers.messages import assistant_message, blocks, chat_messages, is_model_item, item_message, user_messages
from checks.rows import TurnRow, VersionSpan

PLAIN = "plain"
"""The kind of a trajectory whose messages are rows of Parquet, told apart by `trainable`."""
_MODES = {"raw_logprobs": "raw", "processed_logprobs": "scaled"}


def trajectory_turns(kind: str, trajectory: JsonObject, session: str, common: JsonObject) -> Iterator[TurnRow]:
    """The turns in the order in which they ended; each further history is a session of its own."""
    exchanges = mapping(trajectory.get("exchanges"))
    calls: list[dict[str, Json]] = [
        {**fields, "started_at": when(each.get("start_time")), "finished_at": when(each.get("end_time"))}
        for api in ("chat_completions", "completions", "responses", "messages")
        for each in objects(exchanges.get(api), api)
        for fields in _exchange(api, each)
    ]
    if all(each["finished_at"] is not None for each in calls):
        calls.sort(key=_finished)
    messages = [_plain(each) for each in objects(trajectory.get("messages"), "messages")] if kind == PLAIN else []
    calls += _history(messages or objects(trajectory.get("messages_and_choices"), "messages_and_choices"), trajectory)
    yield from _turns(calls, trajectory, session, common)
    for index, further in enumerate(objects(trajectory.get("additional_histories"), "additional_histories"), start=1):
        inner = list(_history(objects(further.get("messages_and_choices"), "messages_and_choices"), further))
        yield from _turns(inner, trajectory, f"{session}/history{index}", {**common, "reward": None, "group_id": None})


def _finished(call: JsonObject) -> datetime:
    return cast(datetime, call["finished_at"])


def _turns(
    calls: Sequence[dict[str, Json]], trajectory: JsonObject, session: str, common: JsonObject
) -> Iterator[TurnRow]:
    first = whole(trajectory.get("initial_policy_version"), "initial_policy_version")
    last = whole(trajectory.get("final_policy_version"), "final_policy_version")
    for turn, call in enumerate(calls, start=1):
        ids = listed(call.get("completion_ids"))
        # Of a trajectory that spans several versions it is not said which one sampled which turn.
        spans = [VersionSpan(first, 0, len(ids))] if first is not None and first == last and ids else None
        yield TurnRow(
            session_id=session,
            turn=turn,
            api="import:art",
            weight_versions=spans,
            **common,
            **call,
        )


def _exchange(api: str, exchange: JsonObject) -> Iterator[dict[str, Json]]:
    request, response = mapping(exchange.get("request")), mapping(exchange.get("response"))
    if api in ("chat_completions", "completions"):
        asked = request_fields(request)
        for reply in reply_fields(response):
            yield asked | reply | {"base_model": asked["base_model"] or text(response.get("model"))}
        return
    usage = usage_fields(mapping(response.get("usage")))
    if api == "messages":
        asked = request_fields({**request, "messages": _anthropic(request)})
        own = choice_fields({**response, "finish_reason": response.get("stop_reason"), "message": None}, response)
        yield {**asked, **own, **usage, "response": assistant_message(blocks(response.get("content")))}
        return
    yield from _responses(request, response, usage)


def _anthropic(request: JsonObject) -> list[dict[str, Json]]:
    """The messages of an Anthropic request as chat messages, its system prompt first."""
    system = "".join(each["text"] for each in blocks(request.get("system")) if isinstance(each.get("text"), str))
    made: list[dict[str, Json]] = [{"role": "system", "content": system}] if system else []
    for each in objects(request.get("messages"), "messages"):
        parts = blocks(each.get("content"))
        made += [assistant_message(parts)] if each.get("role") == "assistant" else user_messages(parts)
    return made


def _responses(request: JsonObject, response: JsonObject, usage: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """A Responses call; its generations are its own exact records where the server gave some."""
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given, "input")
    opening = [{"role": "system", "content": request["instructions"]}] if request.get("instructions") else []
    asked = request_fields({**request, "messages": [*opening, *chat_messages(items)]})
    asked["max_tokens"] = whole(request.get("max_output_tokens"), "max_output_tokens")
    output = objects(response.get("output"), "output")
    reply = item_message([each for each in output if is_model_item(each)])
    reason = mapping(response.get("incomplete_details")).get("reason") or response.get("status")
    yield {
        **asked,
        **usage,
        "prompt_ids": token_ids(response.get("prompt_token_ids"), "prompt_token_ids") or None,
        "completion_ids": token_ids(response.get("token_ids"), "token_ids") or None,
        "sampled_logprobs": floats(response.get("compact_logprobs"), "compact_logprobs"),
        "finish_reason": finish(reason),
        "response": reply,
    }


def _history(messages: Sequence[JsonObject], beside: JsonObject) -> Iterator[dict[str, Json]]:
    """Messages among which the choices are what was sampled, each in answer to all before it."""
    before: list[dict[str, Json]] = []
    tools = _tools(beside.get("tools"))
    for each in messages:
        if "finish_reason" in each and isinstance(each.get("message"), dict):
            request: dict[str, Json] = {"messages": list(before)} | ({"tools": tools} if tools else {})
            yield {"request": request, **choice_fields(each, {}), "logprob_mode": _mode(each)}
            before.append(mapping(each["message"]))
        else:
            before.append(dict(each))


def _plain(message: JsonObject) -> dict[str, Json]:
    """A row of the flattened messages; one that was trainable is a choice."""
    kept: dict[str, Json] = {"role": message.get("role"), "content": message.get("content")}
    calls = _tools(message.get("tool_calls"))
    if calls:
        kept["tool_calls"] = calls
    if message.get("tool_call_id"):
        kept["tool_call_id"] = message["tool_call_id"]
    return {"finish_reason": None, "message": kept} if message.get("trainable") else kept


def _tools(value: Json) -> list[Json]:
    """Tools or tool calls, which Parquet has as text."""
    if isinstance(value, str) and value:
        value = decode_json(value.encode("utf-8", "replace"))
    return listed(value)


def _mode(choice: JsonObject) -> str | None:
    stated = text(choice.get("logprobs_mode"))
    return None if stated is None else _MODES.get(stated, "unknown")
