"""NeMo-RL: the training rows of each step, padded on the right, and the validation rows."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import cast

import numpy as np

from checks.readers.fields import Json, JsonObject, flags, floats, listed, number, token_ids
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short, step_of
from checks.readers.format import Format, Unit
from checks.readers.json_outline import is_cut, outline, tells
from checks.readers.lines import json_objects
from checks.readers.merged_row import turns_or_whole
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow

_TRAIN = frozenset({"token_ids", "input_lengths", "token_loss_mask", "rewards"})
_LISTS = {
    "sampled_logprobs": "generation_logprobs",
    "trainer_logprobs": "prev_logprobs",
    "reference_logprobs": "reference_policy_logprobs",
}


def recognise(head: FileHead) -> str | None:
    """By the columns of a training row, or by content, rewards and idx of a validation row."""
    keys = outline(head)
    if tells(head, _TRAIN, early={"content", "rewards", "input_lengths"}):
        return "lines with token_ids, input_lengths, token_loss_mask and rewards"
    if is_cut(head) and "content" in keys and head.path.name.startswith(("train_data_step", "val_data_step")):
        return "lines that begin with content, in a file of one step"
    return "lines with content, rewards and idx" if {"content", "rewards", "idx"} <= keys else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The rows of one file; each line is a batch, of one sample in recent versions."""
    for path in unit:
        for line_number, line in json_objects(path, unreadable):
            place = f"{short(path)}:{line_number}"
            count = _samples(line)
            if count == 0:
                unreadable.add(place, "neither token_ids nor rewards as lists, expected a batch of samples")
            for sample in range(count):
                where = place if count == 1 else f"{place} sample {sample}"
                name = f"{short(path)}/{line.get('idx', line_number)}" + ("" if count == 1 else f"/{sample}")
                try:
                    yield from _rows(line, sample, path, name, where)
                except (ValueError, IndexError) as error:
                    unreadable.add(where, str(error))


def _samples(line: JsonObject) -> int:
    return next((len(column) for name in ("token_ids", "rewards", "content") if (column := listed(line.get(name)))), 0)


def _of(line: JsonObject, name: str, sample: int) -> Json:
    """One sample's part of a batched column; None where there is no such column."""
    if not isinstance(line.get(name), list):
        return line.get(name)
    column = listed(line[name])
    if sample >= len(column):
        raise ValueError(f"{name} has {len(column)} samples, expected more than {sample}")
    return column[sample]


def _rows(line: JsonObject, sample: int, path: Path, name: str, place: str) -> Iterator[Row]:
    if "token_ids" in line:
        yield from _trained(line, sample, path, name, place)
        return
    content = _of(line, "content", sample)
    reward = _scalar(_of(line, "rewards", sample), "rewards")
    step = step_of(Path(path.name))
    yield EvalRow(step=step, suite="validation", sample=sample, task_id=name, score=reward)
    yield TurnRow(
        session_id=name,
        purpose="eval",
        reward=reward,
        completion_text=content if isinstance(content, str) else None,
        response={"messages": content} if isinstance(content, list) else None,
        place=place,
        api="import:nemo-rl",
    )


def _trained(line: JsonObject, sample: int, path: Path, name: str, place: str) -> Iterator[TurnRow]:
    """A training row: one turn per run of tokens in the loss, which are those that were generated."""
    padded = token_ids(_of(line, "token_ids", sample), "token_ids") or []
    length = _scalar(_of(line, "input_lengths", sample), "input_lengths")
    if length is not None and not length.is_integer():
        raise ValueError(f"input_lengths {length}, expected a whole number")
    used = len(padded) if length is None else int(length)
    if used > len(padded):
        raise ValueError(f"input_lengths {used} of {len(padded)} token_ids, expected no more than there are")
    mask = flags(_of(line, "token_loss_mask", sample), "token_loss_mask") or []
    lists = {ours: floats(_of(line, theirs, sample), theirs) for ours, theirs in _LISTS.items()}
    lists["advantages"] = _advantages(_of(line, "advantages", sample), len(padded))
    kept = _scalar(_of(line, "sample_loss_mask", sample), "sample_loss_mask")
    ids = padded[:used]
    first = next((index for index, flag in enumerate(mask) if flag), len(ids))
    yield from turns_or_whole(
        ids,
        _unpadded(mask, len(padded), used),
        session_id=name,
        per_token={
            **{
                each: None if values is None else _unpadded(values, len(padded), used) for each, values in lists.items()
            },
            "loss_mask": _unpadded(mask, len(padded), used),
        },
        group_id=f"{short(path)}#{_fingerprint(ids[:first])}",
        reward=_reward(line, sample),
        trainer_step=step_of(Path(path.name)),
        trainable=False if kept == 0 else None,
        untrainable_reason="sample_loss_mask is 0" if kept == 0 else None,
        place=place,
        api="import:nemo-rl",
    )


def _unpadded(values: Sequence[Json], padded: int, used: int) -> Sequence[Json]:
    """A list without the padding; one of another length than the padded row is left for the checks."""
    return values[:used] if len(values) == padded else values


def _advantages(value: Json, padded: int) -> list[float] | None:
    """Advantages per token; one number for the row is that of each of its tokens."""
    if len(listed(value)) == 1:
        value = listed(value)[0]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [cast(float, number(value, "advantages"))] * padded
    return floats(value, "advantages")


def _reward(line: JsonObject, sample: int) -> float | None:
    """The reward trained on: of the samples that dynamic sampling left, where it is in use."""
    name = "filtered_rewards" if isinstance(line.get("filtered_rewards"), list) else "rewards"
    return _scalar(_of(line, name, sample), name)


def _scalar(value: Json, name: str) -> float | None:
    """A number, also where it is in a list of one."""
    if value is None:
        return None
    found = floats(listed(value) if isinstance(value, list) else [value], name) or []
    if len(found) != 1:
        raise ValueError(f"{name} holds {len(found)} values for a sample, expected one")
    return found[0]


def _fingerprint(prompt: Sequence[int]) -> str:
    """Names a prompt by its ids: the log numbers no groups, and samples of one group have one prompt."""
    return blake2b(np.asarray(prompt, dtype=np.int32).tobytes(), digest_size=8).hexdigest()


NEMO_RL = Format(
    name="nemo-rl",
    about="NeMo-RL train_data_step<N>.jsonl and val_data_step<N>.jsonl",
    recognise=recognise,
    read=read,
    units=in_order,
    alone=(TurnRow,),
    advice={
        "turns.weight_versions": "NeMo-RL writes no weight version into its rows",
        "turns.finish_reason": "NeMo-RL writes no stop reason into its rows; its logger has truncation metrics",
        "turns.prompt_ids": "NeMo-RL: train_data_step<N>.jsonl is written unless env.should_log_nemo_gym_responses",
        "scores.entropies": "NeMo-RL: entropy is in its logger's metrics only (approx_entropy)",
        "steps.grad_norm": "NeMo-RL: logger.tensorboard_enabled=true, and check the event files with the rows",
        "steps.mfu": "NeMo-RL: logger.tensorboard_enabled=true, and check the event files with the rows",
        "steps.wait_s": "NeMo-RL: logger.tensorboard_enabled=true, and check the event files with the rows",
        "spans.role": "NeMo-RL: logger.tensorboard_enabled=true, and check the event files with the rows",
    },
)
