"""One optimizer step of many adapters: one frozen base, one forward and backward, each adapter its own update."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainer.adapter_optimizer import AdapterOptimizer
from trainer.objective_config import ObjectiveConfig
from trainer.policy import Policy
from trainer.ranks import Ranks
from trainer.rows import TrainingRow
from trainer.training.batch_update import AdapterStep, take_update
from trainer.training.scored_batch import score_batch


class StepResult(NamedTuple):
    """What the step did."""

    adapters: Mapping[str, AdapterStep]
    tokens: int
    """Tokens of the rows."""
    computed_tokens: int
    """Tokens computed after prefix sharing, in one forward pass over all rows."""


def multi_lora_step(
    policy: Policy,
    optimizers: Mapping[str, AdapterOptimizer],
    rows: Sequence[TrainingRow],
    advantages: Mapping[str, float],
    objectives: Mapping[str, ObjectiveConfig],
    *,
    budget_tokens: int = 8192,
    ranks: Ranks = Ranks(),  # noqa: B008  a tuple
) -> StepResult:
    """Scores pi_old of every row, then takes one gradient of the objective and updates every adapter that has rows.

    `advantages` is by turn id, `objectives` by adapter.
    """
    adapters = {name: optimizer.adapter for name, optimizer in optimizers.items()}
    batch = score_batch(policy, adapters, rows, advantages, objectives, budget_tokens=budget_tokens, ranks=ranks)
    done = take_update(policy, optimizers, batch, objectives, ranks=ranks)
    counts = batch.counts.values()
    return StepResult(done.adapters, sum(each.tokens for each in counts), sum(each.computed_tokens for each in counts))
