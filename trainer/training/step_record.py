"""The `step` record of one adapter: every signal that the update made visible, None where it did not."""

import math
from datetime import datetime
from typing import NamedTuple

from torch import Tensor

from collector.records import Step
from trainer.objective import kl_k3
from trainer.training.batch_update import AdapterStep
from trainer.training.scored_batch import AdapterCounts


class StepSetting(NamedTuple):
    """What is known of a step beside its tokens."""

    at: datetime
    duration_s: float
    """Of the whole step, all its adapters and its scoring included."""
    model_flops: float | None
    """Of the whole step, so that MFU says what the device did in that time."""
    peak_flops: float | None


class BatchSetting(NamedTuple):
    """What is known of one adapter's batch."""

    counts: AdapterCounts
    reward_mean: float | None
    staleness_mean: float | None


def step_record(
    adapter: str,
    step: int,
    done: AdapterStep,
    setting: StepSetting,
    batch: BatchSetting,
    *,
    logprobs_after_N: Tensor | None,
) -> Step:
    """`logprobs_after_N` is log pi of the same tokens once the update was made."""
    numbers = done.numbers
    w, log_w = numbers.w_N, numbers.log_w_N
    after = logprobs_after_N
    flops, peak = setting.model_flops, setting.peak_flops
    mfu = None if flops is None or peak is None else flops / (setting.duration_s * peak)
    return Step(
        adapter=adapter,
        step=step,
        at=setting.at,
        duration_s=setting.duration_s,
        tokens=batch.counts.tokens,
        computed_tokens=batch.counts.computed_tokens,
        model_flops=flops,
        peak_flops=peak,
        mfu=mfu,
        loss=_mean(numbers.losses_N),
        grad_norm=done.update.grad_norm,
        entropy=_mean(numbers.entropies_N),
        reward_mean=batch.reward_mean,
        max_w=w.max().item(),
        min_w=w.min().item(),
        mean_w=_mean(w),
        kl_mu_old=-_mean(log_w) + 0.0,
        kl_update=None if after is None else _mean_k3(numbers.old_logprobs_N, after),
        kl_base=None if bool(numbers.reference_logprobs_N.isnan().all()) else _kl_base(done),
        ess=_ess(w),
        w_truncated_share=_mean(numbers.truncated_N),
        clip_share=_mean(numbers.clipped_N),
        staleness_mean=batch.staleness_mean,
        lr=done.update.lr,
    )


def _mean(values_N: Tensor) -> float:
    return values_N.double().mean().item()


def _mean_k3(logprobs_N: Tensor, other_N: Tensor) -> float:
    """KL of the first from the second over the batch's tokens, which are taken as samples of the first."""
    return _mean(kl_k3(logprobs_N.double(), other_N.double()))


def _kl_base(done: AdapterStep) -> float:
    return _mean_k3(done.numbers.logprobs_N, done.numbers.reference_logprobs_N)


def _ess(w_N: Tensor) -> float | None:
    """None where raw w has overflowed."""
    squares, whole = (w_N**2).sum().item(), w_N.sum().item()
    found = whole / squares * (whole / len(w_N)) if math.isfinite(squares) and squares > 0 else math.nan
    return found if math.isfinite(found) else None
