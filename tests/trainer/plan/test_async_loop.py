"""Tests of trainer.plan.async_loop: lecture 12, section 6."""

import pytest

from trainer.plan.async_loop import (
    async_step_s,
    expected_lag_steps,
    inference_share,
    minibatch_mean_lag_steps,
    supply_s,
    sync_step_s,
    token_age_at_completion_s,
    trainer_stall_s,
)


def test_a_synchronous_step_is_the_sum_of_its_phases() -> None:
    assert sync_step_s(rollout_s=120, update_s=30, sync_s=2) == 152


def test_three_to_one_devices_belong_to_three_to_one_work() -> None:
    assert inference_share(rollout_device_s=3, update_device_s=1) == 0.75


@pytest.mark.parametrize(("rollout_work", "update_work"), [(3.0, 1.0), (5.0, 7.0)])
def test_at_the_inference_share_both_phases_take_equally_long(rollout_work: float, update_work: float) -> None:
    share = inference_share(rollout_device_s=rollout_work, update_device_s=update_work)
    assert rollout_work / (share * 16) == pytest.approx(update_work / ((1 - share) * 16))


def test_overlapped_phases_take_the_slower_one() -> None:
    assert async_step_s(supply_s=50, update_s=30, sync_s=2) == 52
    assert async_step_s(supply_s=20, update_s=30, sync_s=2) == 32
    assert trainer_stall_s(supply_s=50, update_s=30) == 20
    assert trainer_stall_s(supply_s=20, update_s=30) == 0


def test_busy_slots_supply_a_batch_without_waiting_for_stragglers() -> None:
    assert supply_s([10, 120, 30, 40, 20, 30, 60, 10], slots=4, batch_rollouts=8) == 80


def test_minibatches_of_one_batch_lag_by_their_predecessors() -> None:
    assert minibatch_mean_lag_steps(1) == 0
    assert minibatch_mean_lag_steps(4) == (0 + 1 + 2 + 3) / 4


def test_long_rollouts_hold_more_of_the_tokens() -> None:
    assert token_age_at_completion_s([10]) == 5
    assert token_age_at_completion_s([10, 30]) == (100 + 900) / 2 / (2 * 20)


def test_lag_grows_with_rollout_length_and_update_time() -> None:
    assert expected_lag_steps([10], supply_s=20, update_s=5) == (5 + 5) / 20


def test_where_the_trainer_limits_the_closed_form_is_refused() -> None:
    with pytest.raises(ValueError, match="the trainer limits the loop; simulate it"):
        expected_lag_steps([10], supply_s=20, update_s=25)
