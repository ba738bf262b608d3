"""slime and Miles: rollout dumps, training dumps and the tables beside them, joined sample by sample."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.pickle_values import RefusedPickle, whole
from checks.readers.slime_beside import columns, evaluation, policy_loss, trajectories
from checks.readers.slime_files import DumpFile, dump_file, in_order, units
from checks.readers.slime_samples import Entry, Trained, loaded, samples_of, trained_of
from checks.readers.slime_turns import Step, sample_turns, versions
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row

_MILES_ONLY = (b"reward_spec", b"routing_key", b"cp_rank", b"qkv_format")


class _Clock:
    """Which weights the trainer held for a rollout, in the engine's numbers.

    The engine counts weight updates from 1 in each process, one for each rollout, the first before rollout one.
    So of a process seen from its first rollout the numbers are exact; of one joined later, the newest weights that
    its first rollout was sampled with are taken for the trainer's, which can only understate the lag.
    """

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None
        self._newest = 0

    def trainer_version(self, rollout_id: int, versions: list[int]) -> int | None:
        """The version at the start of the update, given all versions of the rollout's samples."""
        if not versions or rollout_id < 0:
            return None
        newest = max(versions)
        if self._first is None or newest == 1 < self._newest - 1:
            self._first = (rollout_id, newest)
        self._newest = newest
        return self._first[1] + rollout_id - self._first[0]


def recognise(head: FileHead) -> str | None:
    """By the keys at the start of the pickle inside, or the table that Miles writes beside it."""
    file = dump_file(head)
    if file is None:
        return None
    miles = file.kind in ("columns", "trajectories", "policy_loss") or any(word in head.start for word in _MILES_ONLY)
    of = f" of rollout {file.rollout_id}" if file.rollout_id >= 0 else ""
    return f"the keys of {'Miles' if miles else 'slime'}'s {file.kind.replace('_', ' ')} dump{of}"


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """Every rollout in order: its samples, with what training recorded of them."""
    clock = _Clock()
    files = [dump_file(FileHead.of(path)) or DumpFile(path, "rollout", -1) for path in unit]
    has_training = any(file.kind == "train" for file in files)
    for _, of_rollout in groupby(in_order(files), key=lambda file: file.rollout_id):
        yield from _rollout(list(of_rollout), clock, has_training, unreadable)


def _rollout(files: list[DumpFile], clock: _Clock, has_training: bool, unreadable: UnreadableParts) -> Iterator[Row]:
    """The best of what can be read about a rollout: its dump, else training's, else a table beside them."""
    rollout_id = files[0].rollout_id
    of_kind = {kind: [file.path for file in files if file.kind == kind] for kind in {file.kind for file in files}}
    trained: list[Trained] = [
        each for path in of_kind.get("train", ()) for each in loaded(path, trained_of, unreadable)
    ]
    dumped = {path: loaded(path, samples_of, unreadable) for path in of_kind.get("rollout", ())}
    if any(dumped.values()):
        for path, samples in dumped.items():
            yield from _rollout_file(path, samples, rollout_id, trained, clock, unreadable)
    elif trained:
        yield from _train_only(of_kind["train"][0], rollout_id, trained, unreadable)
    elif "columns" in of_kind:
        for path in of_kind["columns"]:
            yield from columns(path, rollout_id, unreadable)
    else:
        for path in of_kind.get("trajectories", ()):
            yield from trajectories(path, rollout_id, unreadable)
    for path in of_kind.get("policy_loss", ()) if not has_training else ():
        yield from policy_loss(path, unreadable)
    for path in of_kind.get("eval", ()):
        yield from evaluation(path, rollout_id, unreadable)


def _rollout_file(
    path: Path,
    samples: list[Entry],
    rollout_id: int,
    trained: list[Trained],
    clock: _Clock,
    unreadable: UnreadableParts,
) -> Iterator[Row]:
    by_position = {each.position: each for each in trained if each.position is not None}
    by_index = {each.sample_index: each for each in trained if each.position is None}
    engine = [version for sample in samples for version in versions(sample) if version is not None]
    name = str(rollout_id) if rollout_id >= 0 else path.stem
    step = Step(name, rollout_id, clock.trainer_version(rollout_id, engine))
    shared: dict[str, int] = {}
    for position, sample in enumerate(samples):
        place, index = f"{path.name}:samples[{position}]", whole(sample.get("index"))
        found = by_position.get(position) or (by_index.get(index) if index is not None else None)
        try:
            for row in sample_turns(sample, found, step, place, position, unreadable):
                before = shared.get(row.session_id, 0)
                shared[row.session_id] = before + 1
                yield row if row.turn == before + 1 else msgspec.structs.replace(row, turn=before + 1)
        except RefusedPickle as error:
            unreadable.add(place, str(error))


def _train_only(path: Path, rollout_id: int, trained: list[Trained], unreadable: UnreadableParts) -> Iterator[Row]:
    """Samples of which only the training dump is there: the same, without group, status and versions."""
    step = Step(str(rollout_id) if rollout_id >= 0 else path.stem, rollout_id, None)
    seen: set[int] = set()
    for number_of, each in enumerate(trained):
        place = f"{path.name}:samples[{number_of}]"
        key = each.position if each.position is not None else each.sample_index
        if key is not None and key in seen:
            continue
        seen.add(number_of if key is None else key)
        entry = each.entry
        sample = {
            "tokens": entry.get("tokens"),
            "response_length": entry.get("response_lengths"),
            "loss_mask": entry.get("loss_masks"),
            "rollout_log_probs": entry.get("rollout_log_probs"),
            "reward": entry.get("raw_reward"),
            "index": each.sample_index,
        }
        try:
            yield from sample_turns(sample, each, step, place, number_of if key is None else key, unreadable)
        except RefusedPickle as error:
            unreadable.add(place, str(error))


_ADVICE = {
    "turns.sampled_logprobs": "slime or Miles: --use-rollout-logprobs or --use-tis, so that rollout_log_probs are kept",
    "turns.completion_ids": "slime or Miles: --save-debug-rollout-data 'DIR/{rollout_id}.pt' or --dump-details DIR",
    "turns.reward": "slime or Miles: --save-debug-rollout-data beside the training dump",
    "turns.group_id": "slime or Miles: --save-debug-rollout-data beside the training dump",
    "turns.weight_versions": "slime or Miles: --save-debug-rollout-data beside the training dump",
    "turns.finish_reason": "slime or Miles: --save-debug-rollout-data 'DIR/{rollout_id}.pt'; status is in it",
    "scores.trainer_logprobs": "slime or Miles: --save-debug-train-data 'DIR/{rollout_id}.pt' or --dump-details DIR",
    "turns.trainer_logprobs": "slime or Miles: --save-debug-train-data 'DIR/{rollout_id}.pt' or --dump-details DIR",
    "turns.entropies": "slime or Miles: --save-debug-train-data with --use-rollout-entropy",
    "turns.advantages": "slime or Miles: --save-debug-train-data 'DIR/{rollout_id}.pt' or --dump-details DIR",
    "evals.score": "slime or Miles: --eval-interval with --save-debug-rollout-data; eval_{rollout_id}.pt is written",
    "steps.grad_norm": "slime or Miles: --use-tensorboard, and put the event files beside the dumps",
}
SLIME = Format(
    name="slime",
    about="torch files of slime and Miles: rollouts, training, policy loss, and the tables that Miles writes beside",
    recognise=recognise,
    read=read,
    units=units,
    advice=_ADVICE,
)
