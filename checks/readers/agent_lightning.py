"""Agent Lightning: events of its gateway as lines, the trajectories that it uploads, and the spans of versions 0."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.readers.chat_call import reply_fields, request_fields
from checks.readers.fields import Json, JsonObject, floats, later, listed, mapping, number, text, token_ids, when, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short, step_of
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import json_objects
from checks.readers.otel_spans import span_of
from checks.readers.otel_turns import turn_of
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, RewardRow, Row, TurnRow, VersionSpan

_EVENT = frozenset({"event_type", "rollout_id", "attempt_id", "data"})
_SPAN = frozenset({"rollout_id", "attempt_id", "sequence_id", "span_id", "attributes"})
_TRAJECTORY = frozenset({"rollout_id", "reward", "prompt", "response"})
_REWARD = "agentlightning.reward.0.value"
_VALIDATION = re.compile(r"valid")


def recognise(head: FileHead) -> str | None:
    """By an event, a span or a trajectory of a rollout."""
    keys = outline(head)
    if keys >= _EVENT:
        return "lines with event_type, rollout_id, attempt_id and data"
    if keys >= _SPAN:
        return "lines with rollout_id, attempt_id, sequence_id and the attributes of a span"
    return "lines with rollout_id, reward, prompt and response" if keys >= _TRAJECTORY else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The model calls of a file, then the rewards: of an attempt the last one holds."""
    for path in unit:
        rewards: dict[str, float] = {}
        for line_number, line in json_objects(path, unreadable):
            place = f"{path.name}:{line_number}"
            try:
                yield from list(_rows(line, path, place, rewards))
            except ValueError as error:
                unreadable.add(place, str(error))
        for session, value in rewards.items():
            yield RewardRow(session_id=session, value=value)


def _rows(line: JsonObject, path: Path, place: str, rewards: dict[str, float]) -> Iterator[Row]:
    if "event_type" in line:
        data = mapping(line.get("data"))
        if line["event_type"] == "model_request":
            yield from _request(line, data, place)
        elif line["event_type"] == "reward" and (value := number(data.get("value"), "value")) is not None:
            rewards[_session(line)] = value
    elif "attributes" in line:
        span = span_of(line)
        value = span.attributes.get(_REWARD)
        if value is not None:
            rewards[_session(line)] = _number(value)
        elif (turn := turn_of(span, session=_session(line), place=place, api="import:agent-lightning")) is not None:
            yield turn
    else:
        yield from _trajectory(line, path, place)


def _session(line: JsonObject) -> str:
    """A rollout's attempt: a retried rollout has several."""
    return f"{text(line.get('rollout_id'))}/{text(line.get('attempt_id'))}"


def _number(value: Json) -> float:
    found = float(value) if isinstance(value, str) else number(value, _REWARD)
    assert found is not None
    return found


def _request(line: JsonObject, data: JsonObject, place: str) -> Iterator[TurnRow]:
    """A model call: with request and response, or trimmed to its ids as the trainer asks for them."""
    response = data.get("response")
    server = mapping(data.get("server"))
    version = data.get("model_version")
    version = whole(server.get("version") if version is None else version, "model_version")
    asked = request_fields(mapping(data.get("request")))
    finished = when(line.get("timestamp"))
    latency = number(data.get("latency_ms"), "latency_ms")
    failed = data.get("status") == "error" or (whole(data.get("http_status"), "http_status") or 0) >= 400
    replies = [_chunks(listed(response))] if isinstance(response, list) else list(reply_fields(mapping(response)))
    for reply in replies or [_trimmed(data)]:
        ids = reply.get("completion_ids")
        fields: dict[str, Json] = {
            **asked,
            "base_model": text(data.get("model")) or text(server.get("model")) or asked["base_model"],
            **reply,
        }
        if failed:
            fields |= {"finish_reason": "error", "complete": False}
        yield TurnRow(
            session_id=_session(line),
            api="import:agent-lightning",
            started_at=later(finished, None if latency is None else -latency / 1000),
            finished_at=finished,
            weight_versions=None if version is None or not ids else [VersionSpan(version, 0, len(ids))],
            routed_experts_tokens=_routes(data.get("routed_experts")),
            place=place,
            **fields,
        )


def _trimmed(data: JsonObject) -> dict[str, Json]:
    return {
        "prompt_ids": token_ids(data.get("prompt_token_ids"), "prompt_token_ids") or None,
        "completion_ids": token_ids(data.get("response_token_ids"), "response_token_ids") or None,
        "sampled_logprobs": floats(data.get("response_log_probs"), "response_log_probs"),
    }


def _chunks(chunks: list[Json]) -> dict[str, Json]:
    """The ids of a streamed reply whose pieces were stored as they came, as old versions did."""
    pieces = [mapping(each) for each in chunks]
    prompts = (token_ids(each.get("prompt_token_ids"), "prompt_token_ids") for each in pieces)
    firsts = [mapping(next(iter(listed(each.get("choices"))), None)) for each in pieces]
    ids = [each for first in firsts for each in token_ids(first.get("token_ids"), "token_ids") or ()]
    return {"prompt_ids": next((each for each in prompts if each), None), "completion_ids": ids or None}


def _routes(routes: Json) -> int | None:
    return len(listed(routes)) if isinstance(routes, list) else None


def _trajectory(line: JsonObject, path: Path, place: str) -> Iterator[Row]:
    """What is uploaded of a rollout: its last prompt and response as text, and its reward."""
    validation = _VALIDATION.search(path.name) is not None
    step = step_of(path)
    reward = number(line.get("reward"), "reward")
    rollout = text(line.get("rollout_id")) or place
    if validation:
        yield EvalRow(step=step, suite="validation", score=reward)
    yield TurnRow(
        session_id=rollout if step is None else f"step_{step}/{rollout}",
        api="import:agent-lightning",
        purpose="eval" if validation else "traffic",
        trainer_step=None if validation else step,
        prompt_text=text(line.get("prompt")),
        completion_text=text(line.get("response")),
        reward=reward,
        place=f"{short(path)}:{place.rsplit(':', 1)[-1]}",
    )


_EVENTS = "Agent Lightning: export the events of the store (GET /rollouts/{id}/attempt/{id}/events) as lines"

AGENT_LIGHTNING = Format(
    name="agent-lightning",
    about="Agent Lightning events and v0 spans as lines, and its uploaded trajectories.jsonl(.zip)",
    recognise=recognise,
    read=read,
    units=in_order,
    advice={
        **dict.fromkeys(("turns.prompt_ids", "turns.completion_ids", "turns.weight_versions"), _EVENTS),
        "turns.sampled_logprobs": "Agent Lightning: have the agent ask for logprobs; the events keep the response",
        "turns.trainer_logprobs": "Agent Lightning trains through verl, whose metrics have the mismatch",
        "scores.trainer_logprobs": "Agent Lightning trains through verl, whose metrics have the mismatch",
        "turns.group_id": "Agent Lightning's events do not say which rollouts are of one task",
    },
)
