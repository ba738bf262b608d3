"""The change test on single series: found where it is, and not where nothing is."""

import numpy as np
import pytest

from checks.onset import Array, least_samples, onset, running_median, strictness
from tests.checks.simulated_runs import Noise, autocorrelated


def noise(length: int, seed: int, phi: float = 0.6) -> Array:
    return autocorrelated(np.random.default_rng(seed), length, Noise(phi, 8))


@pytest.mark.parametrize("seed", range(5))
def test_a_jump_is_found_at_its_step(seed: int) -> None:
    values = noise(400, seed)
    values[300:] += 10
    found = onset(values)
    assert found is not None
    assert abs(found.best - 300) <= 1
    assert found.first == found.last == found.best
    assert found.base == pytest.approx(0, abs=1)


@pytest.mark.parametrize("seed", range(5))
def test_a_ramp_is_found_near_its_start(seed: int) -> None:
    values = noise(400, seed) + 15 * np.clip((np.arange(400) - 299) / 15, 0, 1)
    found = onset(values)
    assert found is not None
    assert abs(found.best - 300) <= 4


def test_outliers_of_one_or_two_steps_are_no_moves() -> None:
    values = noise(600, 1)
    values[[200, 350, 351, 500]] += 60
    assert onset(values) is None


def test_a_change_for_the_better_is_no_move() -> None:
    values = noise(400, 2)
    values[300:] -= 10
    assert onset(values) is None


def test_a_steady_slope_is_no_move() -> None:
    assert onset(noise(600, 3) + 0.05 * np.arange(600)) is None


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_a_constant_series_has_no_move(value: float) -> None:
    assert onset(np.full(300, value)) is None


def test_a_constant_series_that_jumps_is_found() -> None:
    values = np.ones(300)
    values[200:] = 1.5
    found = onset(values, floor=0.005)
    assert found is not None
    assert found.best == 200


@pytest.mark.parametrize("share", [0.02, 0.1, 0.2, 0.35, 0.5])
@pytest.mark.parametrize("run", [1, 6])
def test_a_series_that_mostly_stands_still_and_sometimes_does_not_has_no_move(share: float, run: int) -> None:
    moved = 0
    for seed in range(20):
        rng = np.random.default_rng([5, seed])
        begins = rng.random(1000) < share / run
        moves = np.convolve(begins, np.ones(run))[:1000] > 0
        moved += onset(np.where(moves, rng.normal(0, 1, 1000), -2.0), floor=0.005) is not None
    assert moved <= 4, "of 20; all 20 where only the median tells the variation"


def test_one_that_begins_to_move_all_the_time_is_found() -> None:
    rng = np.random.default_rng(7)
    values = np.where(rng.random(600) < 0.1, rng.exponential(2, 600), 0.0)
    values[400:] = 3 + rng.exponential(2, 200)
    found = onset(values)
    assert found is not None
    assert abs(found.best - 400) <= 2


def test_an_evaluation_has_an_interval_that_holds_the_truth() -> None:
    inside = 0
    for seed in range(20):
        values = noise(40, seed, phi=0.0)
        values[30:] += 10
        found = onset(values, evaluation=True)
        inside += found is not None and found.first <= 30 <= found.last
    assert inside >= 19


def test_too_few_samples_are_no_move_whatever_they_do() -> None:
    for evaluation in (False, True):
        values = np.zeros(least_samples(evaluation=evaluation) - 1)
        values[-3:] = 1e6
        assert onset(values, evaluation=evaluation, floor=1.0) is None


def test_the_running_median_keeps_edges_and_drops_spikes() -> None:
    assert running_median(np.array([0, 0, 9, 9, 0, 0, 0.0]), 5).tolist() == [0] * 7
    assert running_median(np.array([0, 0, 0, 0, 5, 5, 5, 5.0]), 5).tolist() == [0, 0, 0, 0, 5, 5, 5, 5]


def test_larger_logs_are_tested_more_strictly() -> None:
    assert strictness(1) == strictness(10_000) == 1
    assert strictness(80_000) > 1.2
