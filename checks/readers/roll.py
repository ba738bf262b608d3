"""ROLL: rollouts dumped as one line of columns, and the batches that its mock mode keeps."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.lines import decode_json, json_objects
from checks.readers.padded_turns import PaddedRow, padded_turns
from checks.readers.pickle_values import RefusedPickle, number, whole
from checks.readers.tensor_batch import Columns, cell, data_proto
from checks.readers.text_key import text_key
from checks.readers.torch_file import load_file
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow

_STEP = re.compile(r"step_(\d+)")
_DUMP = "rollout_dump_data.step_"
_REWARDS = ("episode_reward", "episode_score", "reward", "score", "total_reward")


def recognise(head: FileHead) -> str | None:
    """By the name of the dump, whose only line may be larger than any head, or by the class in the pickle."""
    if head.path.name.startswith(_DUMP) and head.start.lstrip()[:1] == b"{":
        return f"a line of columns named {_DUMP}<step>, as ROLL dumps rollouts"
    if head.is_pickle and b"roll.distributed" in head.start[:512] and b"DataProto" in head.start[:512]:
        return "a pickled DataProto of ROLL"
    return None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The turns of each file."""
    for path in unit:
        if not path.name.startswith(_DUMP):
            yield from _mock(path, unreadable)
            continue
        for line_number, line in json_objects(path, unreadable):
            yield from _columns(path, line_number, line, unreadable)


# Any: columns of whatever was dumped.
def _columns(path: Path, line_number: int, line: dict[str, Any], unreadable: UnreadableParts) -> Iterator[Row]:
    columns = {name: cast(list[Any], values) for name, values in line.items() if isinstance(values, list)}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        unreadable.add(f"{path.name}:{line_number}", f"columns of {sorted(lengths)} rows, expected one length for all")
        return
    for row in range(lengths.pop()):
        entry = {name: values[row] for name, values in columns.items()}
        step = whole(entry.get("global_step"))
        step = step if step is not None else _step(path)
        place = f"{path.name}:row {row}"
        if "trajectory_data" in entry:
            turn = _trajectory(entry, step, row, place)
        else:
            turn = _response(entry, step, row, place)
        if turn is not None:
            yield turn


def _response(entry: dict[str, Any], step: int | None, row: int, place: str) -> TurnRow:
    """A row of the pipeline with verifiable rewards."""
    prompt, task = entry.get("prompt"), entry.get("id")
    name = str(task) if task is not None else text_key(prompt) if isinstance(prompt, str) else None
    return TurnRow(
        session_id=f"{step}/{row}",
        task_id=None if task is None else str(task),
        group_id=None if name is None else f"{step}/{name}",
        request=_messages(entry.get("messages")),
        prompt_text=prompt if isinstance(prompt, str) else None,
        completion_text=entry["responses"] if isinstance(entry.get("responses"), str) else None,
        reward=number(entry.get("scores")),
        trainer_step=step,
        place=place,
    )


def _trajectory(entry: dict[str, Any], step: int | None, row: int, place: str) -> TurnRow | None:
    """A row of the agentic pipeline; of a trajectory in steps only the last row is filled."""
    told = _decoded(entry.get("trajectory_data"))
    if not isinstance(told, dict):
        return None
    facts = cast(dict[str, Any], told)
    inner = facts.get("reward_info")
    rewards = cast(dict[str, Any], inner) if isinstance(inner, dict) else facts
    return TurnRow(
        session_id=f"{step}/{facts.get('trajectory_id', row)}",
        request=_messages(entry.get("messages")),
        reward=next((value for name in _REWARDS if (value := number(rewards.get(name))) is not None), None),
        trainer_step=step,
        place=place,
    )


def _messages(value: object) -> dict[str, object] | None:
    held = _decoded(value) if isinstance(value, str) else value
    return {"messages": held} if isinstance(held, list) and held else None


# Any: a JSON value.
def _decoded(text: object) -> Any:
    if not isinstance(text, str) or not text:
        return None
    try:
        return decode_json(text.encode())
    except (ValueError, RecursionError):
        return None


def _mock(path: Path, unreadable: UnreadableParts) -> Iterator[Row]:
    try:
        columns, plain, meta = data_proto(load_file(path))
        if "input_ids" not in columns or "attention_mask" not in columns or "response_mask" not in columns:
            raise RefusedPickle("a batch of ROLL without input_ids, attention_mask or response_mask")
    except RefusedPickle as error:
        unreadable.add(path.name, str(error))
        return
    step = whole(meta.get("global_step"))
    step = step if step is not None else _step(path)
    name = f"{path.parent.name}/{path.stem if step is None else step}"
    for row in range(len(columns["input_ids"])):
        place = f"{path.parent.name}/{path.name}:row {row}"
        group = plain.get("traj_group_id") or plain.get("prompt_id")
        try:
            yield from padded_turns(
                _row(columns, row),
                session_id=f"{name}/{row}",
                group_id=f"{name}/{group[row]}" if group and row < len(group) else None,
                reward=_reward(columns, plain, row),
                trainer_step=step,
                purpose="eval" if path.parent.name == "val" else None,
                place=place,
            )
        except (RefusedPickle, ValueError) as error:
            unreadable.add(place, str(error))


def _row(columns: Columns, row: int) -> PaddedRow:
    of = partial(cell, columns, row=row)
    return PaddedRow(
        tokens=of("input_ids"),
        present=of("attention_mask"),
        mask=of("response_mask"),
        sampled_logprobs=of("infer_logprobs"),
        scores={
            "trainer_logprobs": of("old_log_probs"),
            "reference_logprobs": of("ref_log_probs"),
            "advantages": of("advantages"),
        },
        response=None if of("prompt_mask") is None else of("prompt_mask") == 0,
    )


def _reward(columns: Columns, plain: Columns, row: int) -> float | None:
    """The score of the row: one number, or one for each token, whose sum it is."""
    for held in (columns.get("response_level_rewards"), columns.get("scores"), plain.get("episode_scores")):
        if held is not None and row < len(held):
            return float(np.sum(held[row], dtype=np.float64))
    return None


def _step(path: Path) -> int | None:
    found = _STEP.search(path.name)
    return int(found[1]) if found else None


ROLL = Format(
    name="roll",
    about="ROLL's dumped rollouts in columns, and the batches of its mock mode",
    recognise=recognise,
    read=read,
    advice={
        "turns.completion_ids": "ROLL: rollout_mock in dump mode; rollout_dump_dir is text",
        "turns.sampled_logprobs": "ROLL: rollout_mock in dump mode; rollout_dump_dir is text",
        "turns.reward": "ROLL: rollout_dump_dir=/absolute/path",
        "turns.trainer_logprobs": "ROLL dumps none; actor/train_infer_* is in its metric log",
        "steps.grad_norm": "ROLL: track_with: tensorboard, and put the event files beside the dump",
    },
)
