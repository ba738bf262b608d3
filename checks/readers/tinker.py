"""tinker-cookbook: rollout summaries (lengths and rewards), metrics and the timing of each iteration."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checks.readers.fields import JsonObject, listed, number, objects, text, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short, step_of
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import json_objects
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, StepRow, TurnRow, VersionSpan

_SUMMARY = frozenset({"split", "iteration", "group_idx", "traj_idx", "steps"})
_METRICS = {
    "optim/kl_sample_train_v1": "kl_mu_old",
    "optim/lr": "lr",
    "optim/grad_norm": "grad_norm",
    "env/all/reward/total": "reward_mean",
    "test/env/all/reward/total": "reward_eval",
    "async/staleness_mean": "staleness_mean",
    "async/staleness_max": "staleness_max",
    "time/total": "duration_s",
}
_SAMPLING = ("sampling", "trajectory_group_worker", "do_group_rollout", "policy_sample")
_TRAINING = ("train_step", "train", "forward_backward", "optim_step", "do_train_step_and_get_sampling_client")


def recognise(head: FileHead) -> str | None:
    """By the fields of a rollout summary, the spans of an iteration, or the names of its metrics."""
    keys = outline(head)
    if keys >= _SUMMARY:
        return "lines with split, iteration, group_idx, traj_idx and steps"
    if {"step", "spans", "spans.[].wall_start"} <= keys:
        return "lines with the timing spans of a step"
    if "progress/done_frac" in keys or "optim/kl_sample_train_v1" in keys:
        return "lines with the cookbook's metric names"
    return None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The rows of one file: trajectories as turns with lengths only, or steps."""
    for path in unit:
        for number_, line in json_objects(path, unreadable):
            place = f"{short(path)}:{number_}"
            try:
                if "traj_idx" in line:
                    yield from list(_trajectory(line, path, place))
                elif "spans" in line:
                    yield from _timing(line)
                elif (step := _metrics(line)) is not None:
                    yield step
            except ValueError as error:
                unreadable.add(place, str(error))


def _trajectory(line: JsonObject, path: Path, place: str) -> Iterator[Row]:
    """A trajectory: one turn per step, of which the source keeps how many tokens it had and no more."""
    split, iteration = text(line.get("split")), whole(line.get("iteration"), "iteration")
    evaluated = split is None or not split.startswith("train")
    version = whole(line.get("sampling_client_step"), "sampling_client_step")
    group = f"{split}/{iteration if iteration is not None else step_of(path)}/{line.get('group_idx')}"
    reward = number(line.get("total_reward"), "total_reward")
    if evaluated:
        yield EvalRow(
            step=iteration,
            version=version,
            suite=split,
            task_id=text(line.get("group_idx")),
            sample=whole(line.get("traj_idx"), "traj_idx"),
            score=reward,
        )
    for turn, step in enumerate(objects(line.get("steps"), "steps"), start=1):
        sampled = whole(step.get("ac_len"), "ac_len")
        yield TurnRow(
            session_id=f"{group}/{line.get('traj_idx')}",
            turn=turn,
            group_id=group,
            task_id=",".join(each for each in listed(line.get("tags")) if isinstance(each, str)) or None,
            purpose="eval" if evaluated else None,
            stated_prompt_tokens=whole(step.get("ob_len"), "ob_len"),
            stated_completion_tokens=sampled,
            weight_versions=[VersionSpan(version, 0, sampled)] if version is not None and sampled else None,
            reward=reward,
            trainer_step=None if evaluated else iteration,
            # Iteration i updates the weights that i iterations have made: they are counted from 0.
            trainer_version=None if evaluated else iteration,
            place=place,
            api="import:tinker",
        )


def _timing(line: JsonObject) -> Iterator[StepRow]:
    """How long an iteration took, and how much of it went by in sampling while nothing was trained.

    The spans count from the iteration's own beginning: there are no times of day in them.
    """
    spans = objects(line.get("spans"), "spans")
    ends = [(str(span.get("name")), _seconds(span, "wall_start"), _seconds(span, "wall_end")) for span in spans]
    step = whole(line.get("step"), "step")
    if step is None or not ends:
        raise ValueError("no step or no spans, expected {step, spans: [{name, wall_start, wall_end}]}")
    sampling = _union([(start, end) for name, start, end in ends if name.startswith(_SAMPLING)])
    training = _union([(start, end) for name, start, end in ends if name.startswith(_TRAINING)])
    alone = _length(_union([*sampling, *training])) - _length(training)
    yield StepRow(
        step=step,
        duration_s=max(end for _, _, end in ends) - min(start for _, start, _ in ends),
        wait_s=alone if sampling and training else None,
    )


def _seconds(span: JsonObject, name: str) -> float:
    found = number(span.get(name), name)
    if found is None:
        raise ValueError(f"a span without {name}")
    return found


def _union(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Intervals without overlap that cover what these do."""
    made: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        elif end > start:
            made.append((start, end))
    return made


def _length(intervals: Sequence[tuple[float, float]]) -> float:
    return sum(end - start for start, end in intervals)


def _metrics(line: JsonObject) -> StepRow | None:
    """A line of metrics; `optim/entropy` is of the sampled tokens only, so it is not taken for the entropy."""
    step = whole(line.get("step", line.get("progress/batch")), "step")
    held: dict[str, Any] = {ours: number(line[name], name) for name, ours in _METRICS.items() if name in line}
    even = [number(line.get(f"env/all/by_group/frac_all_{end}"), end) for end in ("good", "bad")]
    if all(each is not None for each in even):
        held["zero_variance_share"] = sum(each for each in even if each is not None)
    return StepRow(step=step, **held) if step is not None and held else None


ADVICE = {
    "turns.prompt_ids": "tinker-cookbook: capture (0.6 and later) records every call's tokens in capture/sample.jsonl",
    "turns.completion_ids": "tinker-cookbook: capture (0.6 and later) records every call's tokens",
    "turns.sampled_logprobs": "tinker-cookbook: capture (0.6 and later) records every call's log-probabilities",
    "turns.trainer_logprobs": "tinker-cookbook logs the trainer's side as metrics only (optim/kl_sample_train_v1)",
    "scores.trainer_logprobs": "tinker-cookbook logs the trainer's side as metrics only (optim/kl_sample_train_v1)",
    "scores.entropies": "tinker-cookbook: the service returns no full entropy",
    "turns.loss_mask": "tinker-cookbook records calls, not the masks they are trained with",
    "steps.grad_norm": "tinker-cookbook: metrics.jsonl has it where the service returns it",
    "steps.wait_s": "tinker-cookbook: check the run's folder, with its timing_spans.jsonl",
    "spans.role": "tinker-cookbook: check the run's folder, with its timing_spans.jsonl",
}

TINKER = Format(
    name="tinker",
    about="tinker-cookbook rollout summaries, metrics.jsonl and timing_spans.jsonl",
    recognise=recognise,
    read=read,
    units=in_order,
    alone=(TurnRow, StepRow),
    advice=ADVICE,
)
