"""pi_gen: each turn scored under the published weights of the version that sampled it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from trainer.lora import TrainedAdapter
from trainer.policy import Policy
from trainer.ranks import Ranks
from trainer.rows import TrainingRow
from trainer.training.published_weights import Gone, PublishedWeights, computes_the_same
from trainer.training.scored_batch import ScoredBatch
from trainer.training.turn_scores import rows_under, score_turns


class SamplingScores(NamedTuple):
    """log pi_gen by turn, and what could not be had."""

    logprobs: Mapping[str, Tensor]
    """By turn id; no entry where the weights that sampled it are gone."""
    gone: Mapping[str, Mapping[str, int]]
    """Adapter to why, to how many turns."""
    flops: float


def score_sampling_versions(
    policy: Policy,
    adapters: Mapping[str, TrainedAdapter],
    rows: Sequence[TrainingRow],
    batch: ScoredBatch,
    published: PublishedWeights,
    *,
    budget_tokens: int,
    ranks: Ranks,
) -> SamplingScores:
    """Nothing is computed twice: what pi_old or the base's scores are already is taken from there."""
    known: dict[str, Tensor] = {}
    gone: dict[str, Counter[str]] = {}
    asked: dict[str | None, list[str]] = {}
    weights: dict[str, TrainedAdapter] = {}
    same: dict[tuple[str, int | None], bool] = {}
    for row in rows:
        assert row.adapter is not None
        for run in row.runs:
            found = published.of(row.adapter, run.adapter_version)
            key = (row.adapter, run.adapter_version)
            if isinstance(found, Gone):
                gone.setdefault(row.adapter, Counter())[found.reason] += 1
                continue
            if key not in same:
                same[key] = computes_the_same(found, adapters[row.adapter])
            if same[key]:
                known[run.turn_id] = batch.old[run.turn_id].logprobs_N
            elif found.name is None and run.turn_id in batch.base:
                known[run.turn_id] = batch.base[run.turn_id].logprobs_N
            else:
                asked.setdefault(found.name, []).append(run.turn_id)
                if found.adapter is not None:
                    weights[found.adapter.name] = found.adapter
    under = [row for name, turns in asked.items() for row in rows_under(rows, name, turns)]
    scored = score_turns(policy, weights, under, budget_tokens=budget_tokens, ranks=ranks)
    known |= {turn: score.logprobs_N for turn, score in scored.turns.items()}
    return SamplingScores(known, gone, scored.flops)
