"""NVIDIA Polar: session results with traces, each a chain of model calls merged into prompt and response."""

from collections.abc import Iterator, Mapping

import msgspec

from checks.readers.fields import (
    Json,
    JsonObject,
    finish,
    flags,
    floats,
    mapping,
    number,
    objects,
    text,
    token_ids,
    whole,
)
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order
from checks.readers.format import Format, Unit
from checks.readers.json_document import documents
from checks.readers.json_outline import is_cut, outline
from checks.readers.merged_row import sampled_runs, turns_or_whole
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow, VersionSpan

_TRACE = frozenset({"prompt_ids", "response_ids", "loss_mask"})
_FIRST = _TRACE | {"traces"}
"""What may come before the cut in a trace so long that its first lists fill the head."""
_PLACES = ("", "[].", "traces.[].", "trajectory.traces.[].", "session_result.trajectory.traces.[].")


def recognise(head: FileHead) -> str | None:
    """By a trace's ids and mask, alone or inside a session result; or by the session's trajectory before them."""
    keys = outline(head)
    for place in _PLACES:
        if {place + name for name in _TRACE} <= keys:
            return "traces with prompt_ids, response_ids and loss_mask"
        if is_cut(head) and place + "prompt_ids" in keys and not {each.split(".[]")[0] for each in keys} - _FIRST:
            return "a trace that begins with prompt_ids"
    for place in ("", "session_result."):
        if {place + "session_id", place + "trajectory.metadata.builder"} <= keys:
            return "a session result whose trajectory names its builder"
    return None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The turns of every trace in a file."""
    for path in unit:
        for place, whole_ in documents(path, unreadable):
            result = mapping(whole_.get("session_result")) or whole_
            try:
                yield from _session(result, place)
            except ValueError as error:
                unreadable.add(place, str(error))


def _session(result: JsonObject, place: str) -> Iterator[TurnRow]:
    """All traces of a session, its turns numbered on from one trace to the next."""
    trajectory = mapping(result.get("trajectory"))
    held = trajectory if "traces" in trajectory else result
    traces = objects(held.get("traces"), "traces") if "traces" in held else [result]
    done: dict[str, int] = {}
    for trace in traces:
        about = mapping(trace.get("metadata"))
        session = text(result.get("session_id")) or text(about.get("session_id")) or place
        for row in _turns(trace, about, result, session, place):
            done[session] = done.get(session, 0) + 1
            yield msgspec.structs.replace(row, turn=done[session])


def _turns(trace: JsonObject, about: JsonObject, result: JsonObject, session: str, place: str) -> Iterator[TurnRow]:
    """A trace: one turn per sampled run; what lies between was put there by the tools."""
    if "response_ids" not in trace:
        raise ValueError("a trace without response_ids, expected prompt_ids, response_ids and loss_mask")
    prompt = token_ids(trace.get("prompt_ids"), "prompt_ids") or []
    response = token_ids(trace.get("response_ids"), "response_ids") or []
    mask = flags(trace.get("loss_mask"), "loss_mask")
    mask = [1] * len(response) if mask is None else mask
    logprobs = _logprobs(trace.get("response_logprobs"))
    before: list[Json] = [0] * len(prompt)
    reward = number(trace.get("reward"), "reward")
    task = text(result.get("task_id")) or text(about.get("task_id"))
    rows = turns_or_whole(
        prompt + response,
        [*before, *mask],
        session_id=session,
        per_token={
            "sampled_logprobs": None if logprobs is None else [*before, *logprobs],
            "loss_mask": [*before, *mask] if "loss_mask" in trace else None,
        },
        task_id=task,
        group_id=task if reward is not None else None,
        base_model=text(mapping(mapping(result.get("trajectory")).get("metadata")).get("model_used")),
        reward=reward,
        place=place,
        api="import:polar",
    )
    versions = _versions(about, len(sampled_runs(mask)))
    for index, row in enumerate(rows):
        version = versions[index] if index < len(versions) else None
        yield msgspec.structs.replace(
            row,
            weight_versions=None if version is None else [VersionSpan(version, 0, len(row.completion_ids or ()))],
            finish_reason=finish(trace.get("finish_reason")) if index == len(versions) - 1 else None,
        )


def _logprobs(value: Json) -> list[float] | None:
    """Log-probabilities of the response, as numbers or as objects that hold them with their token."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return floats([each.get("logprob") for each in objects(value, "response_logprobs")], "response_logprobs")  # pyright: ignore[reportUnknownArgumentType]
    return floats(value, "response_logprobs")


def _versions(about: Mapping[str, Json], turns: int) -> list[int | str | None]:
    """The policy version of each turn, where the trace or its completions name one."""
    each = [_version(call) for call in objects(about.get("completion_metadata"), "completion_metadata")]
    if len(each) == turns and any(version is not None for version in each):
        return each
    return [_version(about)] * turns


def _version(about: Mapping[str, Json]) -> int | str | None:
    value = about.get("policy_version")
    return value if isinstance(value, str) else whole(value, "policy_version")


POLAR = Format(
    name="polar",
    about="NVIDIA Polar session results and traces",
    recognise=recognise,
    read=read,
    units=in_order,
    alone=(TurnRow,),
    advice={
        "turns.trainer_logprobs": "Polar builds rollouts; the trainer that reads them has its own log-probabilities",
        "scores.trainer_logprobs": "Polar builds rollouts; the trainer that reads them has its own log-probabilities",
        "turns.weight_versions": "Polar: set policy_version in the metadata of the session",
        "turns.reward": "Polar: the reward is filled by the evaluator; null means that none ran",
        "turns.group_id": "Polar: sessions of one task_id with rewards make a group",
        "turns.request": "Polar keeps the messages but not the arguments of the chat template they were rendered with",
    },
)
