"""tinker-cookbook's capture: every sampling call and training operation, as lines or as rows of its SQLite store."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from checks.readers.fields import (
    Json,
    JsonObject,
    finish,
    floats,
    later,
    mapping,
    number,
    objects,
    text,
    token_ids,
    when,
    whole,
)
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import decode_json, json_objects
from checks.readers.sqlite_tables import Tables, read_only
from checks.readers.tinker import ADVICE
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, SpanRow, TurnRow, VersionSpan

_STORED = (
    "run_id",
    "run_attempt",
    "split",
    "iteration",
    "group_idx",
    "traj_idx",
    "purpose",
    "sample_idx",
    "policy_version",
    "created_at",
    "prompt_tokens",
    "sampled_tokens",
    "logprobs",
    "metadata",
    "seq_id",
)
_TRAINING = ("forward_backward", "forward_backward_custom", "optim_step")
_PATH_END = 40
_LAST_NUMBER = re.compile(r"(\d+)/?$")


def recognise(head: FileHead) -> str | None:
    """By the kind of a captured record, or by the store's tables."""
    keys = outline(head)
    if {"kind", "scope", "created_at"} <= keys:
        return "lines with the kind and scope of a captured call"
    return "SQLite with the table wire_rows" if head.is_sqlite and b"wire_rows" in head.start else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The calls of one file, in its order."""
    for path in unit:
        if FileHead.of(path).is_sqlite:
            with read_only(path, unreadable) as tables:
                if tables is not None:
                    yield from _stored(path, tables, unreadable)
            continue
        for number_, line in json_objects(path, unreadable):
            place = f"{short(path)}:{number_}"
            try:
                if line.get("kind") == "train_op":
                    yield from _trained(line)
                elif line.get("kind") == "sample":
                    yield from list(_sampled(line, place))
            except ValueError as error:
                unreadable.add(place, str(error))


def _sampled(line: JsonObject, place: str) -> Iterator[TurnRow]:
    """A sampling call: a turn for each of its samples; one that failed is a turn without tokens."""
    params = mapping(line.get("sampling_params"))
    started = when(line.get("created_at"))
    latency = number(line.get("latency_sec"), "latency_sec")
    common: dict[str, Json] = {
        "base_model": text(line.get("base_model")),
        "started_at": started,
        "finished_at": later(started, latency),
        "temperature": number(params.get("temperature"), "temperature"),
        "top_p": number(params.get("top_p"), "top_p"),
        "top_k": whole(params.get("top_k"), "top_k"),
        "max_tokens": whole(params.get("max_tokens"), "max_tokens"),
        "prompt_ids": token_ids(line.get("prompt_tokens"), "prompt_tokens"),
        "stated_prompt_tokens": whole(line.get("prompt_length"), "prompt_length"),
    }
    samples = objects(line.get("samples"), "samples")
    if not samples:
        failed = {"error": "error", "cancelled": "abort"}.get(str(line.get("status")))
        if failed is not None:
            yield _turn(mapping(line.get("scope")), line, None, common | {"finish_reason": failed}, place)
        return
    for index, sample in enumerate(samples):
        said = common | {
            "completion_ids": token_ids(sample.get("tokens"), "tokens"),
            "sampled_logprobs": floats(sample.get("logprobs"), "logprobs"),
            "finish_reason": finish(text(sample.get("stop_reason"))),
        }
        yield _turn(mapping(line.get("scope")), line, index if len(samples) > 1 else None, said, place)


def _stored(path: Path, tables: Tables, unreadable: UnreadableParts) -> Iterator[TurnRow]:
    """The rows of the store, one for each sampled sequence."""
    for values in tables.rows("wire_rows", _STORED, order="cursor"):
        row = {name: _plain(value) for name, value in zip(_STORED, values, strict=True)}
        place = f"{path.name} seq {row['seq_id']} sample {row['sample_idx']}"
        try:
            lists = {name: _decoded(row[name]) for name in ("prompt_tokens", "sampled_tokens", "logprobs", "metadata")}
            about = mapping(lists["metadata"])
            said = {
                "started_at": when(row["created_at"]),
                "prompt_ids": token_ids(lists["prompt_tokens"], "prompt_tokens"),
                "completion_ids": token_ids(lists["sampled_tokens"], "sampled_tokens"),
                "sampled_logprobs": floats(lists["logprobs"], "logprobs"),
                "finish_reason": finish(text(about.get("stop_reason"))),
            }
            sample = whole(row["sample_idx"], "sample_idx")
            yield _turn(row, {"model_path": row["policy_version"]}, sample or None, said, place)
        except ValueError as error:
            unreadable.add(place, str(error))


def _turn(scope: JsonObject, line: JsonObject, sample: int | None, said: Mapping[str, Json], place: str) -> TurnRow:
    """A call in its scope; calls of one trajectory are a session, a call that is in none is one alone."""
    iteration = whole(scope.get("iteration"), "iteration")
    training = (text(scope.get("split")) or "").startswith("train")
    names = [text(scope.get(name)) for name in ("run_id", "run_attempt", "purpose", "split", "iteration", "group_idx")]
    group = "/".join(name for name in names if name is not None)
    trajectory = text(scope.get("traj_idx"))
    session = place if trajectory is None else f"{group}/{trajectory}"
    version = _version(line.get("model_path"))
    tokens = len(said.get("completion_ids") or ())
    return TurnRow(
        session_id=session if sample is None else f"{session}/sample{sample}",
        group_id=group if scope.get("group_idx") is not None else None,
        purpose="eval" if scope.get("split") is not None and not training else None,
        weight_versions=[VersionSpan(version, 0, tokens)] if version is not None and tokens else None,
        trainer_step=iteration if training else None,
        # Iteration i updates the weights that i iterations have made: they are counted from 0.
        trainer_version=iteration if training else None,
        place=place,
        api="import:tinker",
        **said,
    )


def _version(model_path: Json) -> int | str | None:
    """The number at the end of a checkpoint's path, which is the cookbook's step; a path without one as it is."""
    path = text(model_path)
    found = _LAST_NUMBER.search((path or "")[-_PATH_END:])
    return int(found[1]) if found else path


def _trained(line: JsonObject) -> Iterator[SpanRow]:
    """A training operation, from its submission to its result."""
    started = when(line.get("created_at"))
    ended = later(started, number(line.get("latency_sec"), "latency_sec"))
    if line.get("op") in _TRAINING and started is not None and ended is not None:
        yield SpanRow(role="trainer", kind="step", from_=started, to=ended)


def _plain(value: Json) -> Json:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _decoded(value: Json) -> Json:
    return decode_json(value.encode()) if isinstance(value, str) else value


TINKER_CAPTURE = Format(
    name="tinker-capture",
    about="tinker-cookbook capture: sample.jsonl, train_op.jsonl, and the store's wire_rows",
    recognise=recognise,
    read=read,
    units=in_order,
    advice=ADVICE
    | {"turns.reward": "tinker-cookbook: check the run's folder, whose rollout summaries have the rewards"},
)
