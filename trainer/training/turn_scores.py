"""Log-probabilities and entropies by turn, of rows under weights that are not trained."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.lora import TrainedAdapter
from trainer.microbatches import microbatches
from trainer.packing import pack
from trainer.policy import Policy
from trainer.ranks import Ranks
from trainer.rows import SampledRun, TrainingRow
from trainer.training.step_flops import PassShape, scoring_flops


class TurnScore(NamedTuple):
    """The completion tokens of one turn, on the CPU; each of shape N."""

    logprobs_N: Tensor
    entropies_N: Tensor


class TurnScores(NamedTuple):
    """What a pass over some rows found."""

    turns: Mapping[str, TurnScore]
    """By turn id."""
    flops: float
    """Of the forward passes; 0 where nothing was scored."""


def score_turns(
    policy: Policy,
    adapters: Mapping[str, TrainedAdapter],
    rows: Sequence[TrainingRow],
    *,
    budget_tokens: int,
    ranks: Ranks,
) -> TurnScores:
    """Scores every run of the rows, each under the adapter that its row names (the base model for None)."""
    chosen = microbatches(rows, budget_tokens=budget_tokens)
    shape = PassShape.of(policy.network)
    mine: list[TurnScores] = []
    for share in ranks.share(len(chosen)):
        part = [rows[index] for index in chosen[share.microbatch]]
        packed = pack(part)
        with torch.no_grad():
            scored = policy.score(packed, adapters)
        if share.counted:
            flops = 0.0 if shape is None else scoring_flops(shape, packed, adapters)
            mine.append(TurnScores(dict(by_turn(part, scored.logprobs_N, scored.entropies_N)), flops))
    parts = ranks.collect(mine)
    return TurnScores(
        {turn: score for part in parts for turn, score in part.turns.items()}, sum(p.flops for p in parts)
    )


def by_turn(rows: Sequence[TrainingRow], logprobs_N: Tensor, entropies_N: Tensor) -> Iterator[tuple[str, TurnScore]]:
    """The trained tokens of a packing cut into turns."""
    logprobs, entropies = logprobs_N.detach().cpu(), entropies_N.detach().cpu()
    start = 0
    for row in rows:
        for run in row.runs:
            end = start + run.end - run.start
            yield run.turn_id, TurnScore(logprobs[start:end], entropies[start:end])
            start = end


def rows_under(rows: Sequence[TrainingRow], adapter: str | None, turns: Sequence[str] | set[str]) -> list[TrainingRow]:
    """The rows of some turns, given to another adapter and cut after the last of those turns."""
    wanted = set(turns)
    made: list[TrainingRow] = []
    for row in rows:
        runs: tuple[SampledRun, ...] = tuple(run for run in row.runs if run.turn_id in wanted)
        if runs:
            made.append(row._replace(adapter=adapter, ids=row.ids[: runs[-1].end], runs=runs))
    return made
