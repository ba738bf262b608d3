"""One update of every adapter on a scored batch; a batch may be updated on several times, pi_old staying fixed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.adapter_optimizer import AdapterOptimizer, Updated
from trainer.config import BackwardMode
from trainer.lora import TrainedAdapter
from trainer.objective import TokenTerms, weighted_losses
from trainer.objective_config import ObjectiveConfig
from trainer.policy import Policy, Scored
from trainer.ranks import Ranks
from trainer.training.scored_batch import Part, ScoredBatch
from trainer.training.step_flops import PassShape, recomputation_flops, training_flops


class TokenNumbers(NamedTuple):
    """One adapter's trained tokens of an update; all of shape N, in one order for a batch, on the CPU."""

    w_N: Tensor
    """pi_old/mu, raw."""
    log_w_N: Tensor
    entropies_N: Tensor
    """Under the weights that the update began with."""
    losses_N: Tensor
    truncated_N: Tensor
    clipped_N: Tensor
    old_logprobs_N: Tensor
    logprobs_N: Tensor
    """log pi under the weights that the update began with."""
    reference_logprobs_N: Tensor
    """Under the base model; NaN where it was not asked."""


class AdapterStep(NamedTuple):
    """What the update did to one adapter."""

    numbers: TokenNumbers
    update: Updated


class BatchUpdate(NamedTuple):
    """What one update did, and what it took."""

    adapters: Mapping[str, AdapterStep]
    model_flops: float | None
    """Of the forward and backward passes; None for a model that cannot be counted."""
    recomputation_flops: float | None


class _Pass(NamedTuple):
    """What one microbatch's passes found."""

    numbers: Mapping[str, TokenNumbers]
    model_flops: float
    recomputation_flops: float


def take_update(
    policy: Policy,
    optimizers: Mapping[str, AdapterOptimizer],
    batch: ScoredBatch,
    objectives: Mapping[str, ObjectiveConfig],
    *,
    ranks: Ranks = Ranks(),  # noqa: B008  a tuple
    checkpointing: bool = False,
    mode: BackwardMode = "packed",
) -> BatchUpdate:
    """One gradient of the objective over the whole batch, and one optimizer step of every adapter that has rows.

    Losses are divided by the adapter's trained tokens of the whole batch, so that the cut into microbatches changes
    nothing. An adapter whose gradient is not finite is left as it was; the others are not touched by it.
    `checkpointing` and `mode` are the policy's, for the count of what is computed twice.
    """
    adapters = {name: optimizers[name].adapter for name in batch.counts}
    shape = PassShape.of(policy.network)
    mine: list[_Pass] = []
    for part in batch.parts:
        numbers = _backward(policy, adapters, part, objectives, batch)
        if part.counted:
            flops = (0.0, 0.0)
            if shape is not None:
                again = recomputation_flops(shape, part.packed, adapters, checkpointing=checkpointing, mode=mode)
                flops = training_flops(shape, part.packed, adapters), again
            mine.append(_Pass(numbers, *flops))
    ranks.sum_gradients(adapters.values())
    passes = ranks.collect(mine)
    return BatchUpdate(
        {name: AdapterStep(_joined(name, passes), optimizers[name].update()) for name in adapters},
        None if shape is None else sum(each.model_flops for each in passes),
        None if shape is None else sum(each.recomputation_flops for each in passes),
    )


def logprobs_now(
    policy: Policy,
    adapters: Mapping[str, TrainedAdapter],
    batch: ScoredBatch,
    *,
    ranks: Ranks = Ranks(),  # noqa: B008
) -> dict[str, Tensor]:
    """log pi of the batch's tokens as the weights stand, by adapter, in the order of `TokenNumbers`."""
    mine: list[dict[str, Tensor]] = []
    for part in batch.parts:
        with torch.no_grad():
            logprobs_N = policy.score(part.packed, adapters).logprobs_N
        if part.counted:
            mine.append({name: logprobs_N[part.owner_N == index].cpu() for index, name in enumerate(part.owners)})
    parts = ranks.collect(mine)
    return {name: torch.cat([part[name] for part in parts if name in part]) for name in batch.counts}


def _backward(
    policy: Policy,
    adapters: Mapping[str, TrainedAdapter],
    part: Part,
    objectives: Mapping[str, ObjectiveConfig],
    batch: ScoredBatch,
) -> dict[str, TokenNumbers]:
    """Adds the microbatch's gradients to the adapters'."""
    like = part.old_logprobs_N
    losses_N, logprobs_N, entropies_N = (torch.full_like(like, torch.nan) for _ in range(3))
    clipped_N = torch.zeros_like(part.truncated_N)

    def loss_of(scored: Scored, indices: Tensor) -> Tensor:
        total = scored.logprobs_N.new_zeros(())
        logprobs_N[indices], entropies_N[indices] = scored.logprobs_N.detach(), scored.entropies_N.detach()
        owner = part.owner_N[indices]
        for number, name in enumerate(part.owners):
            here = (owner == number).nonzero()[:, 0]
            at = indices[here]
            losses = weighted_losses(
                _terms(part, scored.logprobs_N[here], at), part.weight_N[at], part.truncated_N[at], objectives[name]
            )
            losses_N[at], clipped_N[at] = losses.loss_N.detach(), losses.clipped_N
            total = total + losses.loss_N.sum() / batch.counts[name].trained_tokens
        return total if part.counted else total * 0

    policy.backward(part.packed, adapters, loss_of)
    reference_N = torch.full_like(like, torch.nan) if part.reference_logprobs_N is None else part.reference_logprobs_N
    # In float64 on the CPU, as the checks compute w from the recorded lists.
    log_w_N = part.old_logprobs_N.cpu().double() - part.sampled_logprobs_N.cpu().double()
    columns = (
        log_w_N.exp(),
        log_w_N,
        entropies_N,
        losses_N,
        part.truncated_N,
        clipped_N,
        part.old_logprobs_N,
        logprobs_N,
        reference_N,
    )
    places = [(part.owner_N == number).cpu() for number in range(len(part.owners))]
    return {
        name: TokenNumbers(*(column.cpu()[mine] for column in columns))
        for name, mine in zip(part.owners, places, strict=True)
    }


def _terms(part: Part, logprobs: Tensor, at: Tensor) -> TokenTerms:
    reference = part.reference_logprobs_N
    return TokenTerms(
        logprobs,
        part.old_logprobs_N[at],
        part.sampled_logprobs_N[at],
        part.advantages_N[at],
        part.packed.turns_N.to(at.device)[at],
        None if reference is None else reference[at],
    )


def _joined(name: str, passes: Sequence[_Pass]) -> TokenNumbers:
    found = [each.numbers[name] for each in passes if name in each.numbers]
    return TokenNumbers(*(torch.cat(column) for column in zip(*found, strict=True)))
