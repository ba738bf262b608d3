"""SkyRL: dumped training batches, and evaluation results."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.lines import json_objects
from checks.readers.metric_names import step_row
from checks.readers.padded_turns import PaddedRow, padded_turns
from checks.readers.pickle_values import RefusedPickle, items, number, whole
from checks.readers.tensor_batch import Columns, cell, tensor_batch
from checks.readers.text_key import text_key
from checks.readers.torch_file import load_file
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row

_STEP = re.compile(r"global_step_(\d+)")
_EVAL_KEYS = {"input_prompt", "output_response", "score", "data_source"}
_AGGREGATED = "aggregated_results.jsonl"


def recognise(head: FileHead) -> str | None:
    """By the class at the start of the pickle, or the keys of an evaluation's line."""
    if head.is_pickle and b"skyrl" in head.start[:512] and b"batch" in head.start[:512]:
        return "a pickled training batch of SkyRL"
    if head.keys >= _EVAL_KEYS:
        return "lines with input_prompt, output_response, score and data_source, as SkyRL dumps evaluations"
    if head.path.name == _AGGREGATED and any(key.startswith("eval/") for key in head.keys):
        return "aggregated results of a SkyRL evaluation"
    return None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The turns of each batch, the samples of each evaluation."""
    for path in unit:
        if path.name == _AGGREGATED:
            yield from _aggregated(path, unreadable)
        elif path.suffix == ".jsonl":
            yield from _evaluation(path, unreadable)
        else:
            try:
                columns, metadata = tensor_batch(load_file(path))
                yield from _batch(path, columns, metadata, unreadable)
            except RefusedPickle as error:
                unreadable.add(path.name, str(error))


# Any: metadata as it was pickled.
def _batch(path: Path, columns: Columns, metadata: dict[str, Any], unreadable: UnreadableParts) -> Iterator[Row]:
    missing = [name for name in ("sequences", "attention_mask", "loss_mask") if name not in columns]
    if missing:
        raise RefusedPickle(f"a training batch of SkyRL without {missing[0]}")
    step, stem = _step(path), path.stem
    uids, ends = items(metadata.get("uids")) or [], items(metadata.get("is_last_step")) or []
    # The last rows of a batch may be copies of its first, which only fill it up.
    count = len(columns["sequences"]) - (whole(metadata.get("pad_size")) or 0)
    session, turn = 0, 0
    for row in range(count):
        place = f"{path.name}:row {row}"
        name = f"{stem if step is None else step}"
        fields: dict[str, Any] = {
            "session_id": f"{name}/{session if ends else row}",
            "group_id": f"{name}/{uids[row]}" if row < len(uids) else None,
            "reward": _reward(columns.get("rewards"), row),
            "trainer_step": step,
            "place": place,
        }
        try:
            for found in padded_turns(_row(columns, row), **fields):
                turn += 1
                yield found if not ends else msgspec.structs.replace(found, turn=turn)
        except (RefusedPickle, ValueError) as error:
            unreadable.add(place, str(error))
        if row < len(ends) and ends[row]:
            session, turn = session + 1, 0


def _row(columns: Columns, row: int) -> PaddedRow:
    of = partial(cell, columns, row=row)
    return PaddedRow(
        tokens=of("sequences"),
        present=of("attention_mask"),
        mask=of("loss_mask"),
        sampled_logprobs=of("rollout_logprobs"),
        scores={
            "trainer_logprobs": of("action_log_probs"),
            "reference_logprobs": of("base_action_log_probs"),
            "advantages": of("advantages"),
        },
        response=of("response_mask"),
    )


# Any: a row of a tensor.
def _reward(rewards: list[Any] | None, row: int) -> float | None:
    return None if rewards is None or row >= len(rewards) else float(rewards[row].sum())


def _evaluation(path: Path, unreadable: UnreadableParts) -> Iterator[Row]:
    seen: dict[str, int] = {}
    for line_number, line in json_objects(path, unreadable):
        prompt = line.get("input_prompt")
        if not isinstance(prompt, str):
            unreadable.add(f"{path.name}:{line_number}", "no input_prompt, expected a line of an evaluation")
            continue
        key = text_key(prompt)
        sample = seen[key] = seen.get(key, -1) + 1
        yield EvalRow(
            step=_step(path),
            suite=str(line.get("data_source")),
            task_id=key,
            sample=sample,
            score=_score(line.get("score")),
        )


def _score(score: object) -> float | None:
    """A number, or one for each token, whose sum is the sample's."""
    parts = items(score)
    if parts is None:
        return number(score)
    found = [number(part) for part in parts]
    return None if None in found else sum(part for part in found if part is not None)


def _aggregated(path: Path, unreadable: UnreadableParts) -> Iterator[Row]:
    step = _step(path)
    for line_number, line in json_objects(path, unreadable):
        row = None if step is None else step_row(step, line)
        if row is None:
            unreadable.add(f"{path.name}:{line_number}", "no step in the folder's name, or no metric that is known")
        else:
            yield row


def _step(path: Path) -> int | None:
    found = _STEP.search(path.name) or _STEP.search(path.parent.name)
    return int(found[1]) if found else None


SKYRL = Format(
    name="skyrl",
    about="SkyRL's dumped training batches and evaluation results",
    recognise=recognise,
    read=read,
    advice={
        "turns.completion_ids": "SkyRL: trainer.dump_data_batch=true",
        "turns.sampled_logprobs": "SkyRL: generator.sampling_params.logprobs=0 with trainer.dump_data_batch=true",
        "turns.trainer_logprobs": "SkyRL: trainer.dump_data_batch=true",
        "scores.trainer_logprobs": "SkyRL: trainer.dump_data_batch=true",
        "evals.score": "SkyRL: trainer.dump_eval_results=true with trainer.eval_interval",
        "turns.reward": "SkyRL takes rewards out before it dumps a batch: put its metric log beside it",
        "steps.grad_norm": "SkyRL: trainer.logger=tensorboard, and put the event files beside the dumps",
    },
)
