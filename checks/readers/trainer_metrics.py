"""Metric logs of trainers: a line for each step, or several, or one JSON list of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.lines import decode_json, json_objects, open_plain
from checks.readers.metric_names import known_metric, step_of, step_row
from checks.readers.pickle_values import table
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, StepRow

WHOLE_LIMIT = 256 * 2**20
"""Largest JSON file that is not one of lines."""
_NESTED = ("data", "metrics")
_LOOKED_AT = 20
_START = 4096


def recognise(head: FileHead) -> str | None:
    """By a step and the name of a metric that only trainers log."""
    if b'"log_history"' in head.start and b'"global_step"' in head.start:
        return "a trainer_state.json of transformers or TRL"
    if head.start.lstrip()[:1] == b"[":
        return _in_a_list(head)
    for text in head.start.removeprefix(b"\xef\xbb\xbf").splitlines()[:_LOOKED_AT]:
        line = _object(text)
        name = None if line is None or step_of(line) is None else known_metric(line)
        if name is not None:
            return f"lines with a step and {name}"
    return None


# Any: a line of metrics.
def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = decode_json(text)
    except (ValueError, RecursionError):
        return None
    return _flat(cast(dict[str, Any], value)) if isinstance(value, dict) else None


def _in_a_list(head: FileHead) -> str | None:
    """By the first object, which can be seen whole even where the list cannot."""
    line = _object(head.start[head.start.find(b"{") : head.start.find(b"}") + 1])
    name = None if line is None or step_of(line) is None else known_metric(line)
    return None if name is None else f"a list of objects with a step and {name}"


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """One row for each step, of all that the files say about it."""
    steps: dict[int, StepRow] = {}
    for path in unit:
        for place, line in _objects(path, unreadable):
            flat = _flat(line)
            step = step_of(flat)
            if step is None:
                unreadable.add(place, "no step, expected a line of metrics with one")
                continue
            row = step_row(step, _training(flat))
            if row is not None:
                steps[step] = joined(steps[step], row) if step in steps else row
    for step in sorted(steps):
        yield steps[step]


# Any: a line of metrics.
def _flat(line: dict[str, Any]) -> dict[str, Any]:
    """The metrics at the top, where they stand inside of another object, as in verl's file logger."""
    for name in _NESTED:
        if isinstance(line.get(name), dict):
            return cast(dict[str, Any], line[name]) | {key: value for key, value in line.items() if key != name}
    return line


# Any: as above.
def _training(line: dict[str, Any]) -> dict[str, Any]:
    """Without what an evaluation calls by the names of training."""
    if any(key.startswith("eval_") for key in line):
        return {key: value for key, value in line.items() if key.startswith("eval_")}
    return line


# Any: as above.
def _objects(path: Path, unreadable: UnreadableParts) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a file and where it is, whether they stand in lines or in one list."""
    try:
        is_whole = _is_whole(FileHead.of(path).start[:_START])
    except (OSError, EOFError) as error:
        unreadable.add(path.name, f"cannot be read: {error}")
        return
    if not is_whole:
        for number, line in json_objects(path, unreadable):
            yield f"{path.name}:{number}", line
        return
    for number, line in enumerate(_list_in(path, unreadable)):
        if isinstance(line, dict):
            yield f"{path.name}[{number}]", cast(dict[str, Any], line)


def _is_whole(start: bytes) -> bool:
    """Whether a file is one JSON value: a list, or an object over several lines."""
    start = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return start[:1] == b"[" or b'"log_history"' in start or (start[:1] == b"{" and b"\n" in start.partition(b'"')[0])


def _list_in(path: Path, unreadable: UnreadableParts) -> list[object]:
    try:
        with open_plain(path) as file:
            content = file.read(WHOLE_LIMIT + 1)
        value: object = decode_json(content) if len(content) <= WHOLE_LIMIT else None
    except (ValueError, RecursionError, OSError, EOFError) as error:
        unreadable.add(path.name, f"not JSON: {error}")
        return []
    value = table(value).get("log_history", value)
    if isinstance(value, list):
        return cast(list[object], value)
    unreadable.add(path.name, f"no list of metrics within {WHOLE_LIMIT} bytes")
    return []


def joined(first: StepRow, second: StepRow) -> StepRow:
    """What two lines say of one step; of what both say, the first."""
    told = {name: value for name in second.__struct_fields__ if (value := getattr(second, name)) is not None}
    return msgspec.structs.replace(first, **{k: v for k, v in told.items() if getattr(first, k) is None})


def _all_together(heads: Sequence[FileHead]) -> list[Unit]:
    return [tuple(head.path for head in heads)]


TRAINER_METRICS = Format(
    name="trainer-metrics",
    about="metric logs as JSON: TRL's trainer_state, verl's file logger, prime-rl, tinker, wandb and trackio exports",
    recognise=recognise,
    read=read,
    units=_all_together,
    advice={
        "steps.grad_norm": "the trainer logs it only while it clips: max_grad_norm must be set",
        "steps.mfu": "verl and prime-rl log MFU for GPUs that they know; TRL does not log it",
        "steps.max_w": "no trainer logs the raw maximum: dump tokens with both log-probabilities",
        "turns.completion_ids": "a metric log has no tokens: put the rollout dump into the same folder",
        "turns.sampled_logprobs": "a metric log has no tokens: put the rollout dump into the same folder",
    },
)
