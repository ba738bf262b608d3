"""What stands beside the dumps of Miles, for rollouts whose dump is not there, and evaluations."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from collections.abc import Iterator
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as parquet

from checks.readers.lines import json_objects
from checks.readers.merged_row import sampled_runs
from checks.readers.pickle_values import RefusedPickle, floats, whole
from checks.readers.slime_samples import loaded, samples_of
from checks.readers.slime_turns import FINISH, Step, reward, sample_turns
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow


def columns(path: Path, rollout_id: int, unreadable: UnreadableParts) -> Iterator[Row]:
    """The dashboard's own table of Miles: tokens, mask and log-probabilities, no reward and no group."""
    names = ["sample_index", "response_length", "tokens", "loss_mask", "rollout_log_probs"]
    step = Step(str(rollout_id) if rollout_id >= 0 else path.stem, rollout_id, None)
    position = 0
    try:
        file = parquet.ParquetFile(path)
        for batch in file.iter_batches(batch_size=64, columns=names):
            for sample in batch.to_pylist():
                place = f"{path.name}:{position}"
                sample["index"] = sample["sample_index"]
                try:
                    yield from sample_turns(sample, None, step, place, position, unreadable)
                except RefusedPickle as error:
                    unreadable.add(place, str(error))
                position += 1
    except (OSError, ValueError, KeyError, arrow.ArrowException) as error:
        unreadable.add(path.name, f"cannot be read as the dashboard's table: {error}")


def trajectories(path: Path, rollout_id: int, unreadable: UnreadableParts) -> Iterator[Row]:
    """Messages and reward of samples whose dump is not there: text only."""
    name = str(rollout_id) if rollout_id >= 0 else path.stem
    for line_number, line in json_objects(path, unreadable):
        index, group = whole(line.get("sample_index")), whole(line.get("group_index"))
        yield TurnRow(
            session_id=f"{name}/{index if index is not None else line_number}",
            group_id=None if group is None else f"{name}/{group}",
            request={"messages": line.get("messages")},
            reward=reward(line.get("reward")),
            finish_reason=FINISH.get(str(line.get("status"))),
            trainer_step=rollout_id if rollout_id >= 0 else None,
            place=f"{path.name}:{line_number}",
        )


def policy_loss(path: Path, unreadable: UnreadableParts) -> Iterator[Row]:
    """What the loss saw of each sample: log-probabilities without token ids."""
    for position, sample in enumerate(loaded(path, samples_of, unreadable)):
        place = f"{path.name}:samples[{position}]"
        sampled = None if sample.get("rollout_log_probs") is None else floats(sample.get("rollout_log_probs"))
        scored, mask = floats(sample.get("old_log_probs")), floats(sample.get("local_loss_mask"))
        if sampled is None or scored is None or mask is None or not len(sampled) == len(scored) == len(mask):
            unreadable.add(place, "rollout_log_probs, old_log_probs and local_loss_mask are not of one length")
            continue
        for start, end in sampled_runs([int(value != 0) for value in mask]):
            yield TurnRow(
                session_id=f"{path.stem}/{position}",
                sampled_logprobs=sampled[start:end],
                trainer_logprobs=scored[start:end],
                place=place,
            )


def evaluation(path: Path, rollout_id: int, unreadable: UnreadableParts) -> Iterator[Row]:
    """The samples of an evaluation, whose suites slime joins without their names."""
    for position, sample in enumerate(loaded(path, samples_of, unreadable)):
        group = whole(sample.get("group_index"))
        prompt = sample.get("prompt")
        yield EvalRow(
            step=rollout_id,
            suite="eval",
            task_id=str(group) if group is not None else (prompt if isinstance(prompt, str) else None),
            sample=whole(sample.get("index")) if sample.get("index") is not None else position,
            score=reward(sample.get("reward")),
        )
