"""Group-relative advantages: exact, finite, and zero where the rewards are equal but for rounding."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.group_advantage import all_equal, group_advantages


def test_a_half_solved_group_is_plus_and_minus_one() -> None:
    assert group_advantages([1, 0, 0, 1]) == [1.0, -1.0, -1.0, 1.0], "mean 1/2, deviation 1/2"


def test_one_of_four_is_root_three_and_minus_a_third_of_it() -> None:
    third = math.sqrt(3) / 3
    assert group_advantages([1, 0, 0, 0]) == pytest.approx([math.sqrt(3), -third, -third, -third], rel=1e-15)


@pytest.mark.parametrize("rewards", [[1, 1, 1], [0, 0], [0.5], [-2.5, -2.5], []])
def test_equal_rewards_have_exactly_no_advantage(rewards: list[float]) -> None:
    assert group_advantages(rewards) == [0.0] * len(rewards)


def test_the_residue_of_float32_sums_is_no_difference() -> None:
    summed = float(np.float32(0.1) + np.float32(0.2))
    assert summed != 0.3
    assert all_equal([summed, 0.3, float(np.float32(0.3))])
    assert all_equal([float(np.float32(0.1) + np.float32(0.2) - np.float32(0.3)), 0.0])
    assert not all_equal([0.3, 0.3001])
    assert not all_equal([1000.0, 1000.01])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_advantages_are_finite_for_all_finite_rewards(rewards: list[float]) -> None:
    assert all(math.isfinite(advantage) for advantage in group_advantages(rewards))


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8).filter(lambda r: max(r) - min(r) > 1e-2))
def test_advantages_have_mean_zero_and_deviation_one(rewards: list[float]) -> None:
    found = np.array(group_advantages(rewards))
    assert found.mean() == pytest.approx(0, abs=1e-9)
    assert found.std() == pytest.approx(1, abs=1e-9)
