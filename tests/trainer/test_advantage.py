"""Advantages, against exact fractions and values worked by hand."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared_folder import MISSING, find_shared
from trainer.advantage import RewardedSession, RunningBaseline, advantages


def grouped(groups: dict[str, list[float | None]]) -> list[RewardedSession]:
    """Sessions named `group/index`."""
    return [RewardedSession(f"{name}/{i}", name, r) for name, rewards in groups.items() for i, r in enumerate(rewards)]


def test_a_group_is_centred_and_scaled_by_its_population_deviation() -> None:
    # Mean 1/2, deviation 1/2.
    found = advantages(grouped({"c": [1, 0, 0, 1]}), RunningBaseline())
    assert [each.value for each in found.sessions] == [1.0, -1.0, -1.0, 1.0]
    assert {each.method for each in found.sessions} == {"group"}


def test_without_a_scale_a_group_is_only_centred() -> None:
    found = advantages(grouped({"c": [4, 1, 1]}), RunningBaseline(), scale="none")
    assert [each.value for each in found.sessions] == pytest.approx([2, -1, -1])


def test_zero_variance_groups_are_dropped_and_counted() -> None:
    # 0.3 kept as float32 differs from 0.3 in the eighth digit and is the same reward.
    residue = [float(np.float32(0.3)), 0.3]
    assert residue[0] != residue[1]
    found = advantages(grouped({"a": [1, 1], "b": residue, "c": [0, 1]}), RunningBaseline())
    assert found.zero_variance_groups == 2
    assert [each.reason for each in found.sessions] == ["zero_variance"] * 4 + [None] * 2
    assert [each.value for each in found.sessions][:4] == [None] * 4


def test_a_session_alone_in_its_group_is_compared_with_the_rest_of_the_batch() -> None:
    sessions = [*grouped({"a": [3]}), RewardedSession("x", None, 1.0), RewardedSession("y", None, None)]
    found = advantages(sessions, RunningBaseline()).sessions
    assert [(each.value, each.method) for each in found[:2]] == [(2.0, "leave_one_out"), (-2.0, "leave_one_out")]
    assert (found[2].value, found[2].reason) == (None, "no_reward")


def test_a_lone_session_is_compared_with_the_past_and_without_a_past_with_nothing() -> None:
    alone = [RewardedSession("x", None, 1.0)]
    first = advantages(alone, RunningBaseline())
    assert (first.sessions[0].value, first.sessions[0].reason) == (None, "no_baseline")
    assert first.baseline.mean == 1.0
    second = advantages([RewardedSession("z", None, 0.0)], first.baseline)
    assert (second.sessions[0].value, second.sessions[0].method) == (-1.0, "running")
    assert second.baseline.mean == pytest.approx(0.9)


def test_a_batch_of_one_reward_has_no_gradient_without_groups_either() -> None:
    # An optimizer that normalises would make a whole step of what rounding leaves.
    alike = [
        RewardedSession(str(place), None, reward) for place, reward in enumerate((0.3, float(np.float32(0.3)), 0.3))
    ]
    assert {(each.value, each.reason) for each in advantages(alike, RunningBaseline()).sessions} == {
        (None, "zero_variance")
    }
    past = advantages([RewardedSession("z", None, 0.3)], RunningBaseline(float(np.float32(0.3))))
    assert (past.sessions[0].value, past.sessions[0].reason) == (None, "zero_variance")


def test_a_group_is_compared_with_its_earlier_sessions_and_nothing_else_is() -> None:
    sessions = [RewardedSession("new", "g", 1.0), RewardedSession("x", None, 0.5), RewardedSession("y", "h", 0.0)]
    earlier = [*grouped({"g": [1, 0, None]}), RewardedSession("h/0", "h", 0.0), RewardedSession("k/0", "k", 9.0)]
    found = advantages(sessions, RunningBaseline(), scale="none", earlier=earlier)
    # new: 1 less (1 + 1 + 0) / 3; x: 1/2 less (1 + 0) / 2, the batch's own; y: the same as its group.
    assert [(each.value, each.method) for each in found.sessions] == [
        (pytest.approx(1 / 3), "group"),
        (0.0, "leave_one_out"),
        (None, "group"),
    ]
    assert (found.zero_variance_groups, found.baseline.mean) == (1, 0.5)


def test_an_advantage_beyond_float32_is_not_finite() -> None:
    largest = float(np.finfo(np.float32).max)
    for group in (None, "g"):
        sessions = [RewardedSession("x", group, largest), RewardedSession("y", group, -largest)]
        found = advantages(sessions, RunningBaseline(), scale="none").sessions
        both = [each.value is None or abs(each.value) <= largest for each in found]
        assert all(both), found
    assert [each.reason for each in advantages(sessions[:1], RunningBaseline(-largest)).sessions] == ["not_finite"]


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=8))
def test_leave_one_out_equals_exact_fractions(rewards: list[int]) -> None:
    sessions = [RewardedSession(str(place), None, float(reward)) for place, reward in enumerate(rewards)]
    for each, reward in zip(advantages(sessions, RunningBaseline()).sessions, rewards, strict=True):
        if len(set(rewards)) == 1:
            assert each.reason == "zero_variance"
        else:
            expected = reward - Fraction(sum(rewards) - reward, len(rewards) - 1)
            assert each.value == pytest.approx(float(expected), rel=1e-9, abs=1e-12)


def test_a_missing_reward_enters_no_mean() -> None:
    found = advantages(grouped({"a": [1, 0, None]}), RunningBaseline())
    assert [each.value for each in found.sessions] == [1.0, -1.0, None]
    assert found.baseline.mean == 0.5


def test_a_reward_that_is_not_finite_is_left_out_by_name() -> None:
    found = advantages(grouped({"a": [1, 0, math.nan, math.inf, 1e39]}), RunningBaseline())
    assert [each.value for each in found.sessions] == [1.0, -1.0, None, None, None]
    assert [each.reason for each in found.sessions][2:] == ["not_finite"] * 3


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=8))
def test_every_finite_reward_gives_finite_advantages(rewards: list[float]) -> None:
    found = advantages(grouped({"g": list(rewards)}), RunningBaseline())
    for each in found.sessions:
        assert (each.value is None) == (each.reason == "zero_variance")
        assert each.value is None or abs(each.value) <= math.sqrt(len(rewards)) + 1e-9


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=8))
def test_group_advantages_equal_exact_fractions(rewards: list[int]) -> None:
    found = advantages(grouped({"g": [float(r) for r in rewards]}), RunningBaseline())
    mean = Fraction(sum(rewards), len(rewards))
    variance = sum((r - mean) ** 2 for r in rewards) / len(rewards)
    for each, reward in zip(found.sessions, rewards, strict=True):
        if variance == 0:
            assert each.reason == "zero_variance"
        else:
            assert each.value == pytest.approx(float(reward - mean) / math.sqrt(variance), rel=1e-9, abs=1e-12)


def test_the_handed_over_case_of_zero_variance_groups() -> None:
    shared = find_shared()
    if shared is None:
        pytest.skip(MISSING)
    case = json.loads((shared / "cases" / "030-zero-variance-groups.json").read_text())
    found = advantages(grouped(case["input"]["groups"]), RunningBaseline())
    assert found.zero_variance_groups == len(case["expected"]["zero_variance_groups"])
    for each in found.sessions:
        group, index = each.session_id.split("/")
        assert (each.value or 0.0) == case["expected"]["advantages"][group][int(index)]
