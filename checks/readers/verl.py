"""verl: rollouts and validation as lines of text, and the batches that its rollout cache keeps."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.lines import json_objects
from checks.readers.padded_turns import PaddedRow, padded_turns
from checks.readers.pickle_values import RefusedPickle, items, number, table, whole
from checks.readers.tensor_batch import Columns, JaggedRows, cell, columns_of, data_proto
from checks.readers.text_key import text_key
from checks.readers.torch_file import load_file
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow, VersionSpan

_KEYS = {"input", "output", "score", "step"}
_STEP_FOLDER = re.compile(r"(?:genstep_)?(\d+)")
_VALIDATION_FOLDER = re.compile(r"(^|[-_.])(val|valid|validation|eval|evaluation|test)s?\d*($|[-_.])", re.IGNORECASE)


def recognise(head: FileHead) -> str | None:
    """By the keys of a line, or by the class at the start of the pickle."""
    if head.keys >= _KEYS:
        return "lines with input, output, score and step, as verl dumps rollouts"
    if head.is_pickle and b"verl.protocol" in head.start[:512] and b"DataProto" in head.start[:512]:
        return "a pickled DataProto of verl's rollout cache"
    if head.is_zip and b"tensordict" in head.start[:4096] and b"global_steps" in head.start:
        return "a batch of verl's rollout cache"
    return None


def recognise_validation(head: FileHead) -> str | None:
    """Lines of verl that are validation: by the folder's name, or the scores that only validation adds."""
    if not head.keys >= _KEYS:
        return None
    if _VALIDATION_FOLDER.search(head.path.parent.name):
        return f"lines with input, output, score and step in a folder {head.path.parent.name!r}"
    first = table(head.first_json)
    repeated = "reward" in first and first["reward"] == first["score"]
    return "lines with input, output, score, step and the score again as reward" if repeated else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The turns of each file."""
    for path in unit:
        if path.name.endswith((".jsonl", ".jsonl.gz", ".jsonl.zst")):
            yield from _lines(path, unreadable)
            continue
        try:
            yield from _cached(path, unreadable)
        except RefusedPickle as error:
            unreadable.add(path.name, str(error))


def _lines(path: Path, unreadable: UnreadableParts) -> Iterator[Row]:
    """Text only: special tokens and the borders of turns were taken out before the dump."""
    for line_number, line in json_objects(path, unreadable):
        place = f"{path.name}:{line_number}"
        step, prompt, output = whole(line.get("step")), line.get("input"), line.get("output")
        if step is None or not isinstance(prompt, str) or not isinstance(output, str):
            unreadable.add(place, "no step, input and output, expected a line of verl's rollouts")
            continue
        uid = line.get("uid")
        group = uid.rsplit("_", 2)[0] if isinstance(uid, str) and uid.count("_") >= 2 else text_key(prompt)
        yield TurnRow(
            session_id=f"{step}/{uid if isinstance(uid, str) else line_number}",
            group_id=f"{step}/{group}",
            prompt_text=prompt,
            completion_text=output,
            reward=number(line.get("score")),
            trainer_step=step,
            place=place,
        )


def read_validation(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The samples of each validation; the same input again is the same task again."""
    for path in unit:
        seen: dict[str, int] = {}
        for line_number, line in json_objects(path, unreadable):
            step, prompt = whole(line.get("step")), line.get("input")
            if step is None or not isinstance(prompt, str):
                unreadable.add(f"{path.name}:{line_number}", "no step and input, expected a line of verl's validation")
                continue
            task = text_key(prompt)
            sample = seen[task] = seen.get(task, -1) + 1
            suite, accuracy = line.get("data_source"), line.get("acc")
            yield EvalRow(
                step=step,
                suite=suite if isinstance(suite, str) else path.parent.name,
                task_id=task,
                sample=sample,
                score=number(line.get("score")),
                passed=bool(accuracy) if accuracy in (0, 1, True, False) else None,
            )


class _Batch(NamedTuple):
    """A cached batch of generations."""

    columns: Columns
    step: int | None
    """The step it was generated for."""
    sessions: list[str]
    groups: list[str]
    versions: list[int | None]
    """Updates that the weights of each row had seen; None where they changed within the row."""


def _cached(path: Path, unreadable: UnreadableParts) -> Iterator[Row]:
    pickled: object = load_file(path)
    batch = _of_queue(held) if (held := table(pickled)) else _of_proto(path, pickled)
    # A batch of prompts before generation has no responses: nothing was sampled.
    for row in range(len(batch.columns.get("responses", ()))):
        place = f"{path.parent.name}/{path.name}:row {row}"
        try:
            yield from _turns(batch, row, f"{path.parent.parent.name}/{path.parent.name}", place)
        except (RefusedPickle, ValueError) as error:
            unreadable.add(place, str(error))


# Any: what the transfer queue held.
def _of_queue(held: dict[str, Any]) -> _Batch:
    keys = [str(key) for key in items(held.get("keys")) or ()]
    tags = [table(tag) for tag in items(held.get("tags")) or ()]
    return _Batch(
        columns=columns_of(held.get("tensordict")),
        step=whole(held.get("global_steps")),
        sessions=keys,
        groups=[key.rsplit("_", 2)[0] for key in keys],
        versions=[_version(tag.get("min_global_steps"), tag.get("max_global_steps")) for tag in tags],
    )


def _of_proto(path: Path, pickled: object) -> _Batch:
    columns, plain, _ = data_proto(pickled)
    step = _STEP_FOLDER.fullmatch(path.parent.name)
    first, last = plain.get("min_global_steps", []), plain.get("max_global_steps", [])
    return _Batch(
        columns=columns,
        step=int(step[1]) if step else None,
        sessions=[],
        groups=[str(uid) for uid in plain.get("uid", [])],
        versions=[_version(*bounds) for bounds in zip(first, last, strict=False)],
    )


def _version(first: object, last: object) -> int | None:
    return whole(first) if first == last else None


def _turns(batch: _Batch, row: int, folder: str, place: str) -> Iterator[TurnRow]:
    name = folder if batch.step is None else str(batch.step)
    rewards = batch.columns.get("rm_scores")
    version = batch.versions[row] if row < len(batch.versions) else None
    for turn in padded_turns(
        _row(batch.columns, row),
        session_id=f"{name}/{batch.sessions[row] if row < len(batch.sessions) else row}",
        group_id=f"{name}/{batch.groups[row]}" if row < len(batch.groups) else None,
        reward=None if rewards is None else float(np.sum(rewards[row], dtype=np.float64)),
        adapter_version=version,
        trainer_step=batch.step,
        # Step n trains weights that have seen n - 1 updates.
        trainer_version=None if batch.step is None else batch.step - 1,
        place=place,
    ):
        spans = None if version is None else [VersionSpan(version, 0, len(turn.completion_ids or ()))]
        yield msgspec.structs.replace(turn, weight_versions=spans)


def _row(columns: Columns, row: int) -> PaddedRow:
    of = partial(cell, columns, row=row)
    prompt, response = of("prompts"), of("responses")
    tokens = of("input_ids") if prompt is None else np.concatenate([prompt, response])
    if tokens is None:
        raise RefusedPickle("responses without prompts or input_ids")
    present = of("attention_mask")
    if present is None:
        if not isinstance(columns["responses"], JaggedRows):
            raise RefusedPickle("no attention_mask, so padding cannot be told from tokens")
        present = np.ones(tokens.size, dtype=np.int8)
    mask = of("response_mask")
    return PaddedRow(
        tokens=tokens,
        present=present,
        mask=present[tokens.size - response.size :] if mask is None else mask,
        sampled_logprobs=of("rollout_log_probs"),
        scores={
            "trainer_logprobs": of("old_log_probs"),
            "reference_logprobs": of("ref_log_prob"),
            "advantages": of("advantages"),
            "entropies": of("entropys"),
        },
        response=present[tokens.size - response.size :],
    )


_METRICS = "verl: trainer.logger=['file'], and VERL_FILE_LOGGER_PATH=DIR/metrics.jsonl in its environment"
_ADVICE = {
    "turns.completion_ids": "verl: skip.rollout.enable=True with skip.rollout.dump_dir=DIR; rollout_data_dir is text",
    "turns.sampled_logprobs": "verl: actor_rollout_ref.rollout.calculate_log_probs=True with skip.rollout.enable=True",
    "turns.loss_mask": "verl: skip.rollout.enable=True with skip.rollout.dump_dir=DIR",
    "turns.trainer_logprobs": "verl dumps none; rollout_corr/* in its metric log: trainer.logger=['file']",
    "scores.trainer_logprobs": "verl dumps none; rollout_corr/* in its metric log: trainer.logger=['file']",
    "turns.reward": "verl: trainer.rollout_data_dir=DIR",
    "evals.score": "verl: trainer.validation_data_dir=DIR with trainer.test_freq",
    "steps.grad_norm": _METRICS,
    "steps.mfu": _METRICS,
    "steps.entropy": _METRICS,
}
VERL = Format(
    name="verl",
    about="verl's rollouts as lines of text, and the batches of its rollout cache",
    recognise=recognise,
    read=read,
    advice=_ADVICE,
)
VERL_VALIDATION = Format(
    name="verl-validation",
    about="verl's validation as lines of text: held-out scores",
    recognise=recognise_validation,
    read=read_validation,
    advice=_ADVICE,
)
