"""`score` and `reward` records, each written once however often an interrupted cycle is run again."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl
from torch import Tensor

from checks.readers.tables import frame_of_arrow
from collector.records import Reward, Score
from collector.store.reader import Reader
from trainer.training.turn_scores import TurnScore

_REWARD_KEYS = ("session_id", "turn_id", "mapping_sha256", "closed_at")


class ScoredTurn(NamedTuple):
    """What the trainer found of one turn."""

    turn_id: str
    old: TurnScore
    sampling_logprobs_N: Tensor | None
    reference_logprobs_N: Tensor | None
    advantage: float


def score_record(turn: ScoredTurn, *, adapter: str, trainer_step: int, trainer_version: int | None) -> Score:
    """`trainer_step` is what the scoring weights stood at, `trainer_version` what they were published as, if at all."""
    return Score(
        turn_id=turn.turn_id,
        adapter=adapter,
        trainer_step=trainer_step,
        trainer_version=trainer_version,
        trainer_logprobs=_floats(turn.old.logprobs_N),
        sampling_version_logprobs=None if turn.sampling_logprobs_N is None else _floats(turn.sampling_logprobs_N),
        entropies=_floats(turn.old.entropies_N),
        reference_logprobs=None if turn.reference_logprobs_N is None else _floats(turn.reference_logprobs_N),
        advantages=[turn.advantage] * len(turn.old.logprobs_N),
    )


class WrittenBefore:
    """The scores and rewards that a store holds already."""

    def __init__(self, store: Path, turn_ids: Collection[str]) -> None:
        with Reader(store).snapshot(["scores", "rewards"]) as snapshot:
            self._rewards = set(snapshot.frame("rewards", columns=_REWARD_KEYS).iter_rows())
            self._scores: dict[str, list[Score]] = {}
            wanted = pl.col("turn_id").is_in(list(turn_ids))
            # Most cycles meet their turns for the first time, which the ids alone tell.
            if snapshot.frame("scores", columns=["turn_id"]).filter(wanted).is_empty():
                return
            for frame in map(frame_of_arrow, snapshot.batches("scores", columns=Score.__struct_fields__)):
                for row in frame.filter(wanted).iter_rows(named=True):
                    self._scores.setdefault(row["turn_id"], []).append(msgspec.convert(row, Score))

    def new_rewards(self, rewards: Iterable[Reward]) -> list[Reward]:
        """Those whose session and turn have none of this mapping and closing time; they count as written from now on.

        A session that goes on closes again, at a later time.
        """
        made: list[Reward] = []
        for reward in rewards:
            key = (reward.session_id, reward.turn_id, reward.mapping_sha256, reward.closed_at)
            if key not in self._rewards:
                self._rewards.add(key)
                made.append(reward)
        return made

    def is_new(self, score: Score) -> bool:
        """Whether no record of the same turn says the same, bit for bit."""
        as_stored = msgspec.structs.replace(score, **_in_float32(score))
        return as_stored not in self._scores.get(score.turn_id, ())


def _in_float32(score: Score) -> Mapping[str, Sequence[float] | None]:
    """The lists as a store gives them back."""
    lists = ("trainer_logprobs", "sampling_version_logprobs", "entropies", "reference_logprobs", "advantages")
    found: dict[str, list[float] | None] = {name: getattr(score, name) for name in lists}
    return {
        name: None if values is None else pl.Series(values, dtype=pl.Float64).cast(pl.Float32).to_list()
        for name, values in found.items()
    }


def _floats(values_N: Tensor) -> list[float]:
    return values_N.float().tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
