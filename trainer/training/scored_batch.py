"""A batch whose scores are fixed: pi_old and what else the objectives and the records need, computed once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.lora import TrainedAdapter
from trainer.microbatches import microbatches
from trainer.objective import importance_weights
from trainer.objective_config import ObjectiveConfig
from trainer.packing import Packed, pack
from trainer.policy import Policy
from trainer.ranks import Ranks, Share
from trainer.rows import TrainingRow
from trainer.training.step_flops import PassShape, scoring_flops
from trainer.training.turn_scores import TurnScore, TurnScores, by_turn, rows_under, score_turns


class Part(NamedTuple):
    """One microbatch of this process; N is its trained tokens, in the order of `Packed`."""

    rows: tuple[TrainingRow, ...]
    packed: Packed
    counted: bool
    """False where another process counts it."""
    owners: tuple[str, ...]
    """The adapters that have tokens here."""
    owner_N: Tensor
    """Which of them each token belongs to."""
    advantages_N: Tensor
    sampled_logprobs_N: Tensor
    old_logprobs_N: Tensor
    entropies_N: Tensor
    """Under pi_old's weights."""
    weight_N: Tensor
    """Importance weight of each token, of its whole turn where the objective is of sequences."""
    truncated_N: Tensor
    reference_logprobs_N: Tensor | None
    """Under the base model, where an objective needs it or it is measured."""


class AdapterCounts(NamedTuple):
    """One adapter's share of a batch."""

    tokens: int = 0
    """Of its rows."""
    computed_tokens: int = 0
    """After prefix sharing, in one pass over its rows."""
    trained_tokens: int = 0


class ScoredBatch(NamedTuple):
    """A batch ready to be updated on, any number of times."""

    parts: tuple[Part, ...]
    """Those of this process."""
    counts: Mapping[str, AdapterCounts]
    """By adapter, of the whole batch."""
    old: Mapping[str, TurnScore]
    """pi_old by turn id."""
    base: Mapping[str, TurnScore]
    """The base model's by turn id, where it was scored."""
    old_flops: float
    """Of the pass that fixed pi_old."""
    base_flops: float
    """Of the base model's."""


def score_batch(
    policy: Policy,
    adapters: Mapping[str, TrainedAdapter],
    rows: Sequence[TrainingRow],
    advantages: Mapping[str, float],
    objectives: Mapping[str, ObjectiveConfig],
    *,
    budget_tokens: int,
    ranks: Ranks = Ranks(),  # noqa: B008  a tuple
    measure_base: bool = False,
) -> ScoredBatch:
    """Scores pi_old of every row, and the base where an objective pulls towards it or `measure_base` says so."""
    _refuse_unfit(rows, advantages, objectives)
    of_base = [row for row in rows if measure_base or objectives[_name(row)].kl_base]
    turns = {run.turn_id for row in of_base for run in row.runs}
    scored_base = score_turns(policy, {}, rows_under(rows, None, turns), budget_tokens=budget_tokens, ranks=ranks)
    chosen = microbatches(rows, budget_tokens=budget_tokens)
    parts: list[Part] = []
    old: list[TurnScores] = []
    shape = PassShape.of(policy.network)
    for share in ranks.share(len(chosen)):
        part_rows = tuple(rows[index] for index in chosen[share.microbatch])
        part = _score_part(policy, adapters, part_rows, share, advantages, objectives, scored_base.turns)
        parts.append(part)
        if share.counted:
            flops = 0.0 if shape is None else scoring_flops(shape, part.packed, adapters)
            old.append(TurnScores(dict(by_turn(part_rows, part.old_logprobs_N, part.entropies_N)), flops))
    collected = ranks.collect(old)
    counted = ranks.collect([_counts(part) for part in parts if part.counted])
    return ScoredBatch(
        tuple(parts),
        {name: _summed([counts[name] for counts in counted if name in counts]) for name in _names(rows)},
        {turn: score for each in collected for turn, score in each.turns.items()},
        scored_base.turns,
        sum(each.flops for each in collected),
        scored_base.flops,
    )


def _score_part(
    policy: Policy,
    adapters: Mapping[str, TrainedAdapter],
    rows: tuple[TrainingRow, ...],
    share: Share,
    advantages: Mapping[str, float],
    objectives: Mapping[str, ObjectiveConfig],
    base: Mapping[str, TurnScore],
) -> Part:
    packed = pack(rows)
    with torch.no_grad():
        old = policy.score(packed, adapters)
    like = old.logprobs_N
    of_run = torch.tensor([advantages[run.turn_id] for row in rows for run in row.runs], dtype=torch.float64)
    owners = _names(rows)
    of_row = torch.tensor([owners.index(_name(row)) for row in rows])
    part = Part(
        rows,
        packed,
        share.counted,
        owners,
        of_row[packed.rows_N].to(like.device),
        of_run[packed.turns_N].to(like),
        packed.sampled_logprobs_N.to(like),
        like,
        old.entropies_N,
        torch.ones_like(like),
        torch.zeros_like(like, dtype=torch.bool),
        _reference(rows, base, like),
    )
    return _weighted(part, objectives)


def _weighted(part: Part, objectives: Mapping[str, ObjectiveConfig]) -> Part:
    """With the importance weights of every adapter's own objective."""
    weight_N, truncated_N = part.weight_N.clone(), part.truncated_N.clone()
    turns_N = part.packed.turns_N.to(weight_N.device)
    for index, name in enumerate(part.owners):
        mine = part.owner_N == index
        log_w = part.old_logprobs_N[mine] - part.sampled_logprobs_N[mine]
        weight_N[mine], truncated_N[mine] = importance_weights(log_w, turns_N[mine], objectives[name])
    return part._replace(weight_N=weight_N, truncated_N=truncated_N)


def _reference(rows: Sequence[TrainingRow], base: Mapping[str, TurnScore], like: Tensor) -> Tensor | None:
    """The base model's log-probabilities in the order of the packing, NaN for tokens that nobody asked it about."""
    runs = [run for row in rows for run in row.runs]
    if not any(run.turn_id in base for run in runs):
        return None
    unasked = (torch.full((run.end - run.start,), torch.nan) for run in runs)
    found = [
        base[run.turn_id].logprobs_N if run.turn_id in base else next_ for run, next_ in zip(runs, unasked, strict=True)
    ]
    return torch.cat([each.to(like) for each in found])


def _counts(part: Part) -> dict[str, AdapterCounts]:
    """By adapter."""
    found: dict[str, AdapterCounts] = {}
    for name in part.owners:
        mine = [row for row in part.rows if row.adapter == name]
        computed = sum(end - start for adapter, start, end in part.packed.slices if adapter == name)
        found[name] = AdapterCounts(
            sum(len(row.ids) for row in mine), computed, sum(row.trained_tokens for row in mine)
        )
    return found


def _summed(counts: Sequence[AdapterCounts]) -> AdapterCounts:
    return AdapterCounts(*(sum(column) for column in zip(*counts, strict=True)))


def _names(rows: Sequence[TrainingRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(row) for row in rows))


def _name(row: TrainingRow) -> str:
    if row.adapter is None:
        raise ValueError(f"a row of session {row.session_id} has no adapter, expected one to train")
    return row.adapter


def _refuse_unfit(
    rows: Sequence[TrainingRow], advantages: Mapping[str, float], objectives: Mapping[str, ObjectiveConfig]
) -> None:
    for row in rows:
        if _name(row) not in objectives:
            raise ValueError(f"no objective for adapter {row.adapter}, expected one for every adapter with rows")
        for run in row.runs:
            if run.turn_id not in advantages:
                raise ValueError(f"turn {run.turn_id} has no advantage, expected one for every turn that carries loss")
