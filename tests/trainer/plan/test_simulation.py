"""Tests of trainer.plan.simulation: it reproduces the closed forms in their limits."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.plan.async_loop import async_step_s, expected_lag_steps, supply_s, sync_step_s
from trainer.plan.makespan import continuous_makespan_s
from trainer.plan.simulation import simulate_loop

_DRAW = random.Random(0)
STRAGGLERS = [_DRAW.lognormvariate(3, 0.8) for _ in range(64)]


def test_with_no_running_ahead_it_is_the_synchronous_loop_exactly() -> None:
    loop = simulate_loop(
        STRAGGLERS, slots=64, batch_rollouts=64, update_s=7, sync_s=3, run_ahead_steps=0, steps=20, seed=0
    )
    assert loop.step_s == pytest.approx(sync_step_s(rollout_s=max(STRAGGLERS), update_s=7, sync_s=3), rel=1e-12)
    assert (loop.mean_lag_steps, loop.max_lag_steps) == (0, 0)
    assert loop.trainer_stall_share == pytest.approx(max(STRAGGLERS) / (max(STRAGGLERS) + 10))
    assert loop.slot_busy_share == pytest.approx(sum(STRAGGLERS) / 64 / (max(STRAGGLERS) + 10))


def test_on_fewer_slots_a_synchronous_step_takes_the_makespan() -> None:
    loop = simulate_loop([10.0], slots=3, batch_rollouts=8, update_s=7, sync_s=0, run_ahead_steps=0, steps=10, seed=0)
    assert loop.step_s == pytest.approx(continuous_makespan_s([10.0] * 8, slots=3) + 7)


def test_when_rollouts_limit_step_and_lag_are_the_closed_forms() -> None:
    supply = supply_s(STRAGGLERS, slots=64, batch_rollouts=64)
    loop = simulate_loop(
        STRAGGLERS, slots=64, batch_rollouts=64, update_s=0.6 * supply, sync_s=3, run_ahead_steps=50, steps=600, seed=1
    )
    assert loop.step_s == pytest.approx(async_step_s(supply_s=supply, update_s=0.6 * supply, sync_s=3), rel=0.01)
    expected = expected_lag_steps(STRAGGLERS, supply_s=supply, update_s=0.6 * supply)
    assert loop.mean_lag_steps == pytest.approx(expected - 1 / (2 * 64), rel=0.003)
    assert loop.trainer_stall_share == pytest.approx(0.4 * supply / (supply + 3), rel=0.03)
    assert loop.slot_busy_share == pytest.approx(supply / (supply + 3), rel=0.01)


def test_short_rollouts_and_quick_updates_are_hardly_stale() -> None:
    loop = simulate_loop(
        [1.0, 2.0], slots=4, batch_rollouts=400, update_s=0.1, sync_s=0, run_ahead_steps=50, steps=100, seed=0
    )
    expected = expected_lag_steps([1.0, 2.0], supply_s=150, update_s=0.1)
    assert loop.mean_lag_steps == pytest.approx(expected, abs=0.002)
    assert expected < 0.01


def test_when_the_trainer_limits_a_step_is_an_update_and_lag_grows_to_the_bound() -> None:
    """Each batch is made `bound` steps before it is trained, so its tokens lag by nearly that."""
    bound = 3
    loop = simulate_loop(
        [1.0, 1.5], slots=64, batch_rollouts=64, update_s=100, sync_s=5, run_ahead_steps=bound, steps=50, seed=0
    )
    assert loop.step_s == pytest.approx(105)
    assert loop.trainer_stall_share == 0
    assert loop.mean_lag_steps == pytest.approx(bound, abs=0.01)


def test_one_step_of_overlap_gives_lags_of_zero_and_one() -> None:
    loop = simulate_loop([40.0], slots=8, batch_rollouts=8, update_s=30, sync_s=0, run_ahead_steps=1, steps=50, seed=0)
    assert loop.max_lag_steps == 1
    assert 0 < loop.mean_lag_steps < 1


def test_running_ahead_trades_stall_for_lag() -> None:
    ahead = [
        simulate_loop(
            STRAGGLERS, slots=64, batch_rollouts=64, update_s=20, sync_s=1, run_ahead_steps=steps, steps=200, seed=0
        )
        for steps in (0, 1, 4)
    ]
    assert ahead[0].step_s > ahead[1].step_s > ahead[2].step_s
    assert ahead[0].mean_lag_steps < ahead[1].mean_lag_steps < ahead[2].mean_lag_steps


def test_the_same_seed_gives_the_same_loop() -> None:
    def once(seed: int) -> float:
        return simulate_loop(
            STRAGGLERS, slots=16, batch_rollouts=64, update_s=20, sync_s=1, run_ahead_steps=1, steps=30, seed=seed
        ).mean_lag_steps

    assert once(3) == once(3)
    assert once(3) != once(4)


@settings(max_examples=60, deadline=None)
@given(
    durations=st.lists(st.floats(0.1, 50), min_size=1, max_size=8),
    slots=st.integers(1, 6),
    batch=st.integers(1, 6),
    update_s=st.floats(0.1, 50),
    sync_s=st.floats(0, 5),
    ahead=st.integers(0, 3),
)
def test_no_loop_beats_its_slower_phase(
    durations: list[float], slots: int, batch: int, update_s: float, sync_s: float, ahead: int
) -> None:
    loop = simulate_loop(
        durations,
        slots=slots,
        batch_rollouts=batch,
        update_s=update_s,
        sync_s=sync_s,
        run_ahead_steps=ahead,
        steps=40,
        seed=0,
    )
    assert loop.step_s >= update_s + sync_s - 1e-9
    assert 0 <= loop.slot_busy_share <= 1 + 1e-9
    assert 0 <= loop.trainer_stall_share <= 1
    assert 0 <= loop.mean_lag_steps <= loop.max_lag_steps + 1e-9
    if ahead == 0:
        assert loop.max_lag_steps == 0


def test_a_loop_without_rollouts_is_refused() -> None:
    with pytest.raises(ValueError, match="there are no rollouts"):
        simulate_loop([], slots=1, batch_rollouts=1, update_s=1, sync_s=0, run_ahead_steps=0, steps=1, seed=0)
