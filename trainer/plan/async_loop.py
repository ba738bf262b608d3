"""Synchronous against asynchronous training: step time, the split of devices, stall and expected staleness."""

import math
from collections.abc import Sequence

from trainer.plan.quantity import require_count, require_not_negative, require_positive


def sync_step_s(*, rollout_s: float, update_s: float, sync_s: float) -> float:
    """Phases one after another; the straggler sets the first. Lecture 12, section 6."""
    require_positive(rollout_s=rollout_s, update_s=update_s)
    require_not_negative(sync_s=sync_s)
    return rollout_s + update_s + sync_s


def inference_share(*, rollout_device_s: float, update_device_s: float) -> float:
    """Share of devices to sample on, so that both phases take equally long: W_r / (W_r + W_u). Lecture 12, 6."""
    require_positive(rollout_device_s=rollout_device_s, update_device_s=update_device_s)
    return rollout_device_s / (rollout_device_s + update_device_s)


def async_step_s(*, supply_s: float, update_s: float, sync_s: float) -> float:
    """Overlapped phases: the slower of making a batch and training on one, and the pause that loads weights."""
    require_positive(supply_s=supply_s, update_s=update_s)
    require_not_negative(sync_s=sync_s)
    return max(supply_s, update_s) + sync_s


def supply_s(durations_s: Sequence[float], *, slots: int, batch_rollouts: int) -> float:
    """Time in which always-busy slots finish one batch: no straggler is waited for."""
    require_count(slots=slots, batch_rollouts=batch_rollouts)
    return batch_rollouts * _mean(durations_s) / slots


def trainer_stall_s(*, supply_s: float, update_s: float) -> float:
    """What the trainer waits for rollouts in each overlapped step."""
    require_positive(supply_s=supply_s, update_s=update_s)
    return max(0.0, supply_s - update_s)


def minibatch_mean_lag_steps(minibatches: int) -> float:
    """Mean lag when one synchronous batch feeds several optimizer steps: 0, 1, ... m - 1. Lecture 12, section 6."""
    require_count(minibatches=minibatches)
    return (minibatches - 1) / 2


def token_age_at_completion_s(durations_s: Sequence[float]) -> float:
    """Mean age of a token when its rollout ends, for tokens sampled evenly over it: E[d^2] / 2 E[d].

    Longer than half the mean duration: long rollouts hold more of the tokens.
    """
    mean = _mean(durations_s)
    return math.fsum(duration * duration for duration in durations_s) / len(durations_s) / (2 * mean)


def expected_lag_steps(durations_s: Sequence[float], *, supply_s: float, update_s: float) -> float:
    """Mean lag of a token under in-flight updates, when rollouts limit the loop and each batch is trained once.

    Holds when rollouts end at times unrelated to each other, as they do once their lengths differ, and to within
    1 / 2B steps for batches of B rollouts, since the last of a batch does not wait.
    A token of age x at its rollout's end waits y, uniform over one period T, for its batch to fill; the weights it
    was sampled with have by then been replaced ceil((x + y + u) / T) - 1 times, since an update takes u. The mean
    over y is (x + u) / T. Times are on the generation clock, which stands still while weights load.
    """
    require_positive(supply_s=supply_s, update_s=update_s)
    if update_s > supply_s:
        raise ValueError(
            f"update_s {update_s:g} exceeds supply_s {supply_s:g}: the trainer limits the loop; simulate it"
        )
    return (token_age_at_completion_s(durations_s) + update_s) / supply_s


def _mean(durations_s: Sequence[float]) -> float:
    if not durations_s:
        raise ValueError("there are no rollouts, expected at least one duration")
    for duration in durations_s:
        require_positive(duration_s=duration)
    return math.fsum(durations_s) / len(durations_s)
