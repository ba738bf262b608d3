"""ART (OpenPipe): trajectories in Parquet or older lines, and the metrics of a run's history.jsonl."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from checks.readers.art_trajectory import PLAIN, trajectory_turns
from checks.readers.fields import Json, JsonObject, mapping, number, objects, text, when, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import by_number
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import decode_json, json_objects
from checks.readers.parquet_rows import parquet_rows
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, StepRow

_VERSION = 2
_BATCH_ROWS = 8
_COLUMNS = ("format_version", "group_index", "trajectory_index", "trajectory_json")
_COLUMNS_V1 = ("group_index", "reward", "messages", "tools")
_METRICS = {
    "loss": ("loss/train", "train/loss"),
    "grad_norm": ("loss/grad_norm", "train/grad_norm"),
    "entropy": ("loss/entropy", "train/entropy"),
    "kl_base": ("loss/kl_policy_ref", "loss/kl_div", "train/kl_div"),
    "lr": ("loss/learning_rate", "train/learning_rate"),
    "clip_share": ("loss/clipped_token_fraction",),
    "reward_mean": ("train/reward",),
    "reward_eval": ("val/reward",),
    "duration_s": ("time/step_wall_s",),
    "wait_s": ("time/step_trainer_idle_s",),
    "engine_wait_s": ("time/step_rollout_idle_s",),
}
"""Field of a step to ART's names of it, now and before version 0.5.

Left out: loss/importance_ratio_*, which are of ratios as configured, clipped or not.
"""


def recognise(head: FileHead) -> str | None:
    """By the columns of a Parquet file, the choices in a line's trajectories, or a metric line's recorded_at."""
    if {"group_index", "messages", "reward"} <= head.columns or set(_COLUMNS) <= head.columns:
        return "a Parquet file of trajectories with group_index"
    keys = outline(head)
    if "trajectories.[].messages_and_choices" in keys:
        return "lines with trajectories of messages_and_choices"
    return "lines with step and recorded_at" if {"step", "recorded_at"} <= keys else None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """All together in the order of their steps, since a run's metrics stand in one file and its rollouts in many."""
    return [tuple(sorted((head.path for head in heads), key=by_number))]


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The turns of every trajectory, a sample for each one of an evaluation, and the steps."""
    for path in unit:
        head = FileHead.of(path)
        if head.is_parquet:
            yield from _parquet(path, head, unreadable)
        elif "recorded_at" in outline(head):
            yield from _steps(path, unreadable)
        else:
            yield from _lines(path, unreadable)


def _parquet(path: Path, head: FileHead, unreadable: UnreadableParts) -> Iterator[Row]:
    exact = "trajectory_json" in head.columns
    wanted = [name for name in (_COLUMNS if exact else _COLUMNS_V1) if name in head.columns]
    for row, record in parquet_rows(path, unreadable, batch_rows=_BATCH_ROWS, columns=wanted):
        yield from _record(record, path, row, exact, unreadable)


def _record(record: JsonObject, path: Path, row: int, exact: bool, unreadable: UnreadableParts) -> Iterator[Row]:
    """One row; that of a group without trajectories is none."""
    place = f"{path.parent.name}/{path.name}[{row}]"
    try:
        group = whole(record.get("group_index"), "group_index")
        if not exact:
            if record.get("messages") is not None:
                yield from _trajectory(PLAIN, record, path, (group, row), place)
            return
        if record.get("format_version") != _VERSION:
            raise ValueError(f"format_version {record.get('format_version')!r}, expected {_VERSION}")
        index = whole(record.get("trajectory_index"), "trajectory_index")
        if record.get("trajectory_json") is not None:
            trajectory = decode_json(str(record["trajectory_json"]).encode("utf-8", "replace"))
            yield from _trajectory("", mapping(trajectory), path, (group, index), place)
    except (ValueError, RecursionError) as error:
        unreadable.add(place, str(error))


def _lines(path: Path, unreadable: UnreadableParts) -> Iterator[Row]:
    """A group of trajectories on each line."""
    for group, (line_number, line) in enumerate(json_objects(path, unreadable)):
        place = f"{path.parent.name}/{path.name}:{line_number}"
        try:
            for index, trajectory in enumerate(objects(line.get("trajectories"), "trajectories")):
                yield from _trajectory("", trajectory, path, (group, index), place)
        except ValueError as error:
            unreadable.add(place, str(error))


def _trajectory(
    kind: str, trajectory: JsonObject, path: Path, index: tuple[int | None, int | None], place: str
) -> list[Row]:
    """A trajectory's rows: its file's folder says the split, the file's name the step."""
    split = path.parent.name
    step = int(path.stem) if path.stem.isdecimal() and len(path.stem) < 19 else None
    held_out = split not in ("train", "trajectories", "")
    # <model>/trajectories/<split>/<step>.parquet: the folder checked may hold several models.
    model = f"{path.parents[2].name}/" if path.parent.parent.name == "trajectories" else ""
    group = f"{model}{split}/{path.stem}/{index[0]}"
    common: dict[str, Json] = {
        "group_id": group,
        "reward": number(trajectory.get("reward"), "reward"),
        "purpose": "eval" if held_out else "traffic",
        "trainer_step": None if held_out else step,
        "place": place,
    }
    rows: list[Row] = []
    if held_out:
        rows.append(EvalRow(step=step, suite=split, task_id=str(index[0]), sample=index[1], score=common["reward"]))
    return rows + list(trajectory_turns(kind, trajectory, f"{group}/{index[1]}", common))


def _steps(path: Path, unreadable: UnreadableParts) -> Iterator[StepRow]:
    """One row for each step, of all the lines about it; the last to say something holds."""
    steps: dict[int, dict[str, Json]] = {}
    for line_number, line in json_objects(path, unreadable):
        try:
            step = whole(line.get("training_step", line.get("step")), "step")
            if step is None:
                raise ValueError("no step, expected a line of metrics with one")
            found = {field: _metric(line, names) for field, names in _METRICS.items()}
        except ValueError as error:
            unreadable.add(f"{path.name}:{line_number}", str(error))
            continue
        known = {field: value for field, value in found.items() if value is not None}
        if known:
            steps.setdefault(step, {}).update(known | {"at": when(text(line.get("recorded_at")))})
    yield from (StepRow(step=step, **fields) for step, fields in sorted(steps.items()))


def _metric(line: JsonObject, names: Sequence[str]) -> float | None:
    return next((number(line[name], name) for name in names if line.get(name) is not None), None)


_IDS = "ART: token ids are in the responses of a server that returns them (vLLM's return_token_ids, ART's own backend)"

ART = Format(
    name="art",
    about="ART trajectories (Parquet v1 and v2, older jsonl) and history.jsonl",
    recognise=recognise,
    read=read,
    units=units,
    advice={
        **dict.fromkeys(("turns.prompt_ids", "turns.completion_ids"), _IDS),
        "turns.sampled_logprobs": "ART: ask for logprobs=True in the rollout; older jsonl files have them removed",
        "turns.weight_versions": "ART: its pipeline trainer sets initial_policy_version and final_policy_version",
        "turns.trainer_logprobs": "ART writes no trainer's log-probabilities; history.jsonl has the ratio's mean",
        "scores.trainer_logprobs": "ART writes no trainer's log-probabilities; history.jsonl has the ratio's mean",
        "steps.mfu": "ART: history.jsonl has tokens a second, no FLOPs",
    },
)
