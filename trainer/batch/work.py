"""What one cycle trains on: an adapter's update batches, and the account of everything that is in none."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from collector.records import Reward
from trainer.batch.funnel import Funnel
from trainer.batch.response_rate import ResponseRates
from trainer.rows import CapturedTurn


class UpdateBatch(NamedTuple):
    """The turns of one optimizer step."""

    turns: tuple[CapturedTurn, ...]
    """Whole sessions; what carries no loss is context, and `untrainable_reason` says why it carries none."""
    advantages: Mapping[str, float]
    """Turn id of every turn with loss to its advantage, propensity weight and user cap folded in."""
    staleness: Mapping[str, int]
    """Turn id of every turn with loss to its staleness: the updates of the batches before this one are
    counted as steps."""
    rewards: tuple[Reward, ...]
    """The rewards of its sessions and of their turns that were given."""
    reward_mean: float | None
    """Mean of `rewards`."""
    trained_on: tuple[tuple[str, int, int], ...]
    """(writer, first seq, last seq): exactly the turns with loss."""
    sessions: int
    """Sessions with loss; 1 is a step from a single sample."""


class AdapterWork(NamedTuple):
    """All that waits for one adapter."""

    adapter: str
    tenant: str
    batches: tuple[UpdateBatch, ...]
    """One for each optimizer step, in their order."""
    funnel: Funnel
    response: ResponseRates
    new_feedback: int
    """Judgements that stand behind the batches: what `train --min-feedback` waits for."""
    baseline: float | None
    """The running reward baseline once the batches have been trained on, for the next checkpoint."""


class BatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """One update batch in numbers."""

    sessions: int
    turns: int
    """Turns with loss."""
    tokens: int
    """Tokens with loss."""
    reward_mean: float | None
    staleness_mean: float
    """Optimizer steps, over tokens with loss."""
    staleness_max: int


class WorkReport(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter's work in numbers; encodes as JSON."""

    adapter: str
    tenant: str
    batches: list[BatchReport]
    funnel: Funnel
    response: ResponseRates
    new_feedback: int
    baseline: float | None


def work_report(work: AdapterWork) -> WorkReport:
    """The work without its tokens."""
    return WorkReport(
        adapter=work.adapter,
        tenant=work.tenant,
        batches=[_batch_report(batch) for batch in work.batches],
        funnel=work.funnel,
        response=work.response,
        new_feedback=work.new_feedback,
        baseline=work.baseline,
    )


def _batch_report(batch: UpdateBatch) -> BatchReport:
    tokens = {turn.turn_id: len(turn.completion_ids) for turn in batch.turns if turn.untrainable_reason is None}
    total = sum(tokens.values())
    return BatchReport(
        sessions=batch.sessions,
        turns=len(tokens),
        tokens=total,
        reward_mean=batch.reward_mean,
        staleness_mean=sum(batch.staleness[name] * count for name, count in tokens.items()) / total,
        staleness_max=max(batch.staleness.values()),
    )
