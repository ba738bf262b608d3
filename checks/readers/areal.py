"""AReaL: generations as lines of text, with the weight versions they began and ended under."""

from collections.abc import Iterator
from pathlib import Path

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.lines import json_objects
from checks.readers.pickle_values import number, whole
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow

_KEYS = {"task_id", "seqlen", "prompt_len", "head_version", "tail_version", "prompt", "completion"}


def recognise(head: FileHead) -> str | None:
    """By the keys of a line."""
    return "lines with head_version, tail_version and prompt_len, as AReaL dumps them" if head.keys >= _KEYS else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """A turn for each line, or a held-out sample for one of an evaluation."""
    for path in unit:
        folder = f"{path.parent.parent.name}/{path.parent.name}"
        held_out = path.parent.parent.name.startswith("eval")
        for line_number, line in json_objects(path, unreadable):
            place = f"{path.name}:{line_number}"
            first, last, task = whole(line.get("head_version")), whole(line.get("tail_version")), line.get("task_id")
            if first is None or last is None or task is None:
                unreadable.add(place, "no task_id, head_version and tail_version, expected a line of AReaL's dump")
                continue
            sample = whole(line.get("sample_idx"))
            if held_out:
                yield EvalRow(
                    version=last,
                    suite=path.parent.parent.name,
                    task_id=str(task),
                    sample=sample,
                    score=number(line.get("reward")),
                )
                continue
            yield TurnRow(
                session_id=f"{folder}/{task}/{line_number}",
                task_id=str(task),
                group_id=f"{folder}/{task}",
                prompt_text=_text(line.get("prompt")),
                completion_text=_text(line.get("completion")),
                # Both are over all samples of the task: one version is certain only where they agree.
                adapter_version=last if first == last else None,
                reward=number(line.get("reward")),
                place=f"{_short(path)}:{line_number}",
            )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


AREAL = Format(
    name="areal",
    about="AReaL's dumped generations: text with special tokens, rewards and weight versions",
    recognise=recognise,
    read=read,
    advice={
        "turns.completion_ids": "AReaL dumps text only (rollout.dump_to_file); token ids stay in memory",
        "turns.sampled_logprobs": "AReaL dumps text only; log-probabilities and versions by token stay in memory",
        "turns.reward": "AReaL: rollout.dump_to_file=true with tokenizer_path",
        "steps.grad_norm": "AReaL: stats_logger.tensorboard.path, and put the event files beside the dump",
    },
)
