"""rLLM's model gateway: every call with its ids, from the SQLite store or an export of it as lines."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from checks.readers.chat_call import request_fields
from checks.readers.fields import (
    Json,
    JsonObject,
    finish,
    floats,
    listed,
    mapping,
    number,
    objects,
    text,
    token_ids,
    whole,
)
from checks.readers.fields import when as read_time
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import decode_json, json_objects
from checks.readers.sqlite_tables import Tables, read_only
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow, VersionSpan

KEPT_TOKENS = 32_000_000
"""Tokens of earlier turns that are kept at hand for those stored as what they add to them."""

Stored = Callable[[str], JsonObject | None]
"""A trace by its id, from wherever they are stored."""


def recognise(head: FileHead) -> str | None:
    """By the store's tables, or by the ids and keys of a trace."""
    if head.is_sqlite:
        return "SQLite with the tables traces and trace_sessions" if b"trace_sessions" in head.start else None
    if {"trace_id", "session_id", "prompt_token_ids", "completion_token_ids"} <= outline(head):
        return "lines with trace_id, session_id, prompt_token_ids and completion_token_ids"
    return None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The traces in the order in which they were stored."""
    for path in unit:
        if not FileHead.of(path).is_sqlite:
            chains = Chains(lambda _: None)
            for line_number, line in json_objects(path, unreadable):
                yield from _row(line, "", f"{path.name}:{line_number}", chains, unreadable)
            continue
        with read_only(path, unreadable) as tables:
            if tables is not None:
                yield from _stored(path, tables, unreadable)


def _stored(path: Path, tables: Tables, unreadable: UnreadableParts) -> Iterator[Row]:
    def by_id(trace_id: str) -> JsonObject | None:
        found = next(tables.rows("traces", ("data",), where="trace_id = ?", order="rowid", values=(trace_id,)), None)
        return None if found is None else _decoded(found[0])

    chains = Chains(by_id)
    has_runs = "run_id" in tables.columns("trace_sessions")
    for trace_id, data in tables.rows("traces", ("trace_id", "data"), order="created_at, rowid"):
        named = _plain(trace_id)
        place = f"{short(path)} trace {named}"
        try:
            trace = _decoded(data)
        except (ValueError, RecursionError) as error:
            unreadable.add(place, f"not JSON: {error}")
            continue
        run = _run(tables, named) if has_runs else ""
        yield from _row({**trace, "trace_id": named}, run, place, chains, unreadable)


def _run(tables: Tables, trace_id: str) -> str:
    """The gateway's run, since sessions of several runs may have the same id."""
    found = next(tables.rows("trace_sessions", ("run_id",), where="trace_id = ?", values=(trace_id,)), None)
    return "" if found is None else _plain(found[0])


def _plain(value: Json) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else text(value) or ""


def _decoded(data: Json) -> JsonObject:
    value = decode_json(data) if isinstance(data, bytes) else None
    if not isinstance(value, dict):
        raise ValueError("data is no JSON object, expected one")
    return mapping(value)


def _row(trace: JsonObject, run: str, place: str, chains: "Chains", unreadable: UnreadableParts) -> Iterator[TurnRow]:
    try:
        yield _turn(trace, run, place, chains)
    except (ValueError, RecursionError) as error:
        unreadable.add(place, str(error))


def _turn(trace: JsonObject, run: str, place: str, chains: "Chains") -> TurnRow:
    completion = token_ids(trace.get("completion_token_ids"), "completion_token_ids") or None
    version = whole(trace.get("weight_version"), "weight_version")
    finished = read_time(trace.get("timestamp"))
    messages = objects(trace.get("messages"), "messages")
    session = text(trace.get("session_id")) or place
    counts = mapping(trace.get("token_counts"))
    experts = trace.get("routing_matrices")
    sampling = request_fields(mapping(trace.get("raw_request")))
    fields: dict[str, Json] = {
        **sampling,
        "base_model": text(trace.get("model")) or sampling["base_model"],
        "request": {"messages": messages} if messages else sampling["request"],
    }
    return TurnRow(
        session_id=f"{run}/{session}" if run else session,
        turn_id=text(trace.get("trace_id")),
        api="import:rllm-gateway",
        started_at=_before(finished, number(trace.get("latency_ms"), "latency_ms")),
        finished_at=finished,
        prompt_ids=chains.prompt(trace) or None,
        completion_ids=completion,
        sampled_logprobs=floats(trace.get("logprobs"), "logprobs"),
        weight_versions=None if version is None or completion is None else [VersionSpan(version, 0, len(completion))],
        finish_reason=finish(trace.get("finish_reason")),
        stated_prompt_tokens=whole(counts.get("prompt"), "token_counts.prompt"),
        stated_completion_tokens=whole(counts.get("completion"), "token_counts.completion"),
        routed_experts_tokens=len(listed(experts)) if isinstance(experts, list) else None,
        response=mapping(trace.get("response_message")) or None,
        place=place,
        **fields,
    )


def _before(finished: datetime | None, milliseconds: float | None) -> datetime | None:
    if finished is None or not milliseconds or not 0 < milliseconds < 1e12:
        return None
    started = finished.timestamp() - milliseconds / 1000
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=started) if started > 0 else None


class Chains:
    """Prompts put together again: a trace may hold only what it adds to the prompt and completion of another."""

    def __init__(self, stored: Stored, *, kept_tokens: int = KEPT_TOKENS) -> None:
        self._stored = stored
        self._kept_tokens = kept_tokens
        self._whole: OrderedDict[str, list[int]] = OrderedDict()
        self._tokens = 0

    def prompt(self, trace: JsonObject) -> list[int] | None:
        """The whole prompt of a trace; ValueError where a trace that it builds on is missing."""
        chain, passed = [trace], {text(trace.get("trace_id"))}
        while chain[-1].get("prompt_delta_token_ids") is not None:
            parent = text(chain[-1].get("parent_trace_id")) or ""
            if parent in self._whole:
                break
            above = self._stored(parent)
            if above is None or parent in passed:
                raise ValueError(f"its prompt builds on trace {parent!r}, which is not there or builds on itself")
            passed.add(parent)
            chain.append({**above, "trace_id": parent})
        ids: list[int] | None = None
        for each in reversed(chain):
            ids = self._own(each)
            self._keep(text(each.get("trace_id")), ids, each)
        return ids

    def _own(self, trace: JsonObject) -> list[int] | None:
        added = token_ids(trace.get("prompt_delta_token_ids"), "prompt_delta_token_ids")
        if added is None:
            return token_ids(trace.get("prompt_token_ids"), "prompt_token_ids")
        return [*self._whole[text(trace.get("parent_trace_id")) or ""], *added]

    def _keep(self, trace_id: str | None, ids: list[int] | None, trace: JsonObject) -> None:
        if trace_id is None or ids is None:
            return
        held = [*ids, *(token_ids(trace.get("completion_token_ids"), "completion_token_ids") or ())]
        self._tokens += len(held) - len(self._whole.pop(trace_id, ()))
        self._whole[trace_id] = held
        while self._tokens > self._kept_tokens and len(self._whole) > 1:
            self._tokens -= len(self._whole.popitem(last=False)[1])


_VLLM = (
    "rLLM: the gateway asks for token ids (add_return_token_ids) and log-probabilities (add_logprobs); vLLM gives them"
)

RLLM_GATEWAY = Format(
    name="rllm-gateway",
    about="rLLM model gateway traces: its SQLite store, or an export as lines",
    recognise=recognise,
    read=read,
    units=in_order,
    advice={
        **dict.fromkeys(("turns.prompt_ids", "turns.completion_ids", "turns.sampled_logprobs"), _VLLM),
        "turns.weight_versions": "rLLM: the trainer tells the gateway its weight version at each update",
        "turns.temperature": "rLLM: the gateway's capture_raw keeps requests with their sampling parameters",
        "turns.reward": "rLLM: check the episode files too (log_episodes=true)",
        "turns.group_id": "rLLM: check the episode files too (log_episodes=true)",
        "turns.trainer_logprobs": "rLLM writes no trainer's log-probabilities; its backend (verl, tinker) can",
        "scores.trainer_logprobs": "rLLM writes no trainer's log-probabilities; its backend (verl, tinker) can",
    },
)
