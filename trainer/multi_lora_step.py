"""One optimizer step of many adapters: one frozen base, one forward and backward, each adapter its own update."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from trainer.adapter_optimizer import AdapterOptimizer, Updated
from trainer.lora import TrainedAdapter
from trainer.microbatches import microbatches
from trainer.objective import TokenLosses, TokenTerms, token_losses
from trainer.objective_config import ObjectiveConfig
from trainer.packing import Packed, pack
from trainer.policy import Policy
from trainer.rows import TrainingRow


class TokenNumbers(NamedTuple):
    """One adapter's trained tokens of a step; all of shape N, in no order that matters, on the CPU."""

    w_N: Tensor
    """pi_old/mu, raw."""
    log_w_N: Tensor
    entropies_N: Tensor
    """Under pi_old's weights."""
    losses_N: Tensor
    truncated_N: Tensor
    clipped_N: Tensor


class AdapterStep(NamedTuple):
    """What the step did to one adapter."""

    numbers: TokenNumbers
    update: Updated


class StepResult(NamedTuple):
    """What the step did."""

    adapters: Mapping[str, AdapterStep]
    tokens: int
    """Tokens of the rows."""
    computed_tokens: int
    """Tokens computed after prefix sharing, in one forward pass over all rows."""


class _Microbatch(NamedTuple):
    packed: Packed
    advantages_N: Tensor
    old_logprobs_N: Tensor
    entropies_N: Tensor
    reference_logprobs_N: Tensor | None
    adapters_N: list[str]


def multi_lora_step(
    policy: Policy,
    optimizers: Mapping[str, AdapterOptimizer],
    rows: Sequence[TrainingRow],
    advantages: Mapping[str, float],
    objectives: Mapping[str, ObjectiveConfig],
    *,
    budget_tokens: int = 8192,
) -> StepResult:
    """Scores pi_old of every row, then takes one gradient of the objective and updates every adapter that has rows.

    `advantages` is by turn id, `objectives` by adapter. Losses are divided by the adapter's trained tokens of the
    whole step, so that the cut into microbatches changes nothing. An adapter whose gradient is not finite is left as
    it was; the others are not touched by it.
    """
    adapters = {name: optimizer.adapter for name, optimizer in optimizers.items()}
    parts = [
        _score_old(policy, adapters, [rows[index] for index in chosen], advantages, objectives)
        for chosen in microbatches(rows, budget_tokens=budget_tokens)
    ]
    trained = {name: sum(part.adapters_N.count(name) for part in parts) for name in adapters}
    losses = [_backward(policy, adapters, part, objectives, trained) for part in parts]
    used = [name for name in adapters if trained[name]]
    return StepResult(
        {name: AdapterStep(_numbers(name, parts, losses), optimizers[name].update()) for name in used},
        sum(len(row.ids) for row in rows),
        sum(len(part.packed.ids_T) for part in parts),
    )


def _score_old(
    policy: Policy,
    adapters: Mapping[str, TrainedAdapter],
    rows: list[TrainingRow],
    advantages: Mapping[str, float],
    objectives: Mapping[str, ObjectiveConfig],
) -> _Microbatch:
    packed = pack(rows)
    of_run = torch.tensor([_advantage(advantages, run.turn_id) for row in rows for run in row.runs])
    of_row = [_name(row) for row in rows]
    names = [of_row[index] for index in cast("list[int]", packed.rows_N.tolist())]
    with torch.no_grad():
        old = policy.score(packed, adapters)
        reference = None
        if any(objectives[name].kl_base for name in set(names)):
            base = tuple(piece._replace(adapter=None) for piece in packed.slices)
            reference = policy.score(packed._replace(slices=base), {}).logprobs_N
    return _Microbatch(packed, of_run[packed.turns_N], old.logprobs_N, old.entropies_N, reference, names)


def _advantage(advantages: Mapping[str, float], turn_id: str) -> float:
    if turn_id not in advantages:
        raise ValueError(f"turn {turn_id} has no advantage, expected one for every turn that carries loss")
    return advantages[turn_id]


def _name(row: TrainingRow) -> str:
    if row.adapter is None:
        raise ValueError(f"a row of session {row.session_id} has no adapter, expected one to train")
    return row.adapter


def _backward(
    policy: Policy,
    adapters: Mapping[str, TrainedAdapter],
    part: _Microbatch,
    objectives: Mapping[str, ObjectiveConfig],
    trained: Mapping[str, int],
) -> dict[str, TokenLosses]:
    """Adds the microbatch's gradients to the adapters'."""
    scored = policy.score(part.packed, adapters)
    found: dict[str, TokenLosses] = {}
    total = scored.logprobs_N.new_zeros(())
    for name in dict.fromkeys(part.adapters_N):
        mine = _of(part, name)
        reference = part.reference_logprobs_N
        terms = TokenTerms(
            scored.logprobs_N[mine],
            part.old_logprobs_N[mine],
            part.packed.sampled_logprobs_N.to(part.old_logprobs_N)[mine],
            part.advantages_N.to(part.old_logprobs_N)[mine],
            part.packed.turns_N.to(mine.device)[mine],
            None if reference is None else reference[mine],
        )
        losses = found[name] = token_losses(terms, objectives[name])
        total = total + losses.loss_N.sum() / trained[name]
    total.backward()  # pyright: ignore[reportUnknownMemberType]
    return {name: losses._replace(loss_N=losses.loss_N.detach()) for name, losses in found.items()}


def _of(part: _Microbatch, name: str) -> Tensor:
    """Which trained tokens of a microbatch belong to an adapter."""
    return torch.tensor([index for index, each in enumerate(part.adapters_N) if each == name]).to(
        part.old_logprobs_N.device
    )


def _numbers(name: str, parts: Sequence[_Microbatch], losses: Sequence[Mapping[str, TokenLosses]]) -> TokenNumbers:
    pieces: list[tuple[Tensor, ...]] = []
    for part, of_part in zip(parts, losses, strict=True):
        if name in of_part:
            mine, each = _of(part, name), of_part[name]
            log_w = part.old_logprobs_N[mine] - part.packed.sampled_logprobs_N.to(part.old_logprobs_N)[mine]
            pieces.append((each.w_N, log_w, part.entropies_N[mine], each.loss_N, each.truncated_N, each.clipped_N))
    joined = [torch.cat(column).cpu() for column in zip(*pieces, strict=True)]
    return TokenNumbers(*joined)
