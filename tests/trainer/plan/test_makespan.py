"""Tests of trainer.plan.makespan: lecture 12, section 2, and the bounds on any list."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.plan.makespan import (
    compare_makespans,
    continuous_makespan_s,
    equal_makespan_s,
    lower_bound_s,
    static_makespan_s,
    upper_bound_s,
)

ROLLOUTS = [10, 120, 30, 40, 20, 30, 60, 10]
LISTS = st.lists(st.floats(0.01, 1_000), min_size=1, max_size=40)


def test_the_lecture_s_eight_rollouts_on_four_slots() -> None:
    spans = compare_makespans(ROLLOUTS, slots=4)
    assert (spans.static_s, spans.continuous_s) == (180, 120)
    assert (spans.lower_bound_s, spans.upper_bound_s) == (120, 170)
    assert spans.slot_utilisation == 320 / 480
    assert spans.straggler_cost_s == 120 - 320 / 4


def test_equal_rollouts_finish_in_whole_waves() -> None:
    assert equal_makespan_s(rollouts=9, slots=4, duration_s=10) == 30
    assert continuous_makespan_s([10] * 9, slots=4) == 30


@settings(deadline=None)
@given(durations=LISTS, slots=st.integers(1, 12))
def test_continuous_batching_stays_within_its_bounds_and_below_static(durations: list[float], slots: int) -> None:
    continuous = continuous_makespan_s(durations, slots=slots)
    tolerance = 1e-9 * sum(durations)
    assert lower_bound_s(durations, slots=slots) <= continuous + tolerance
    assert continuous <= upper_bound_s(durations, slots=slots) + tolerance
    assert continuous <= static_makespan_s(durations, slots=slots) + tolerance


@settings(deadline=None)
@given(durations=st.lists(st.integers(1, 20), min_size=1, max_size=5), slots=st.integers(1, 3))
def test_no_assignment_of_rollouts_to_slots_beats_the_lower_bound(durations: list[int], slots: int) -> None:
    best = math.inf
    for places in itertools.product(range(slots), repeat=len(durations)):
        loads = [sum(d for d, place in zip(durations, places, strict=True) if place == slot) for slot in range(slots)]
        best = min(best, max(loads))
    assert lower_bound_s(durations, slots=slots) <= best
    assert best <= continuous_makespan_s(durations, slots=slots)


@settings(deadline=None)
@given(durations=LISTS)
def test_one_slot_takes_the_sum_and_enough_slots_the_longest(durations: list[float]) -> None:
    assert continuous_makespan_s(durations, slots=1) == pytest.approx(sum(durations))
    assert continuous_makespan_s(durations, slots=len(durations)) == max(durations)


def test_no_rollouts_and_negative_durations_are_refused() -> None:
    with pytest.raises(ValueError, match="there are no rollouts"):
        continuous_makespan_s([], slots=4)
    with pytest.raises(ValueError, match="duration_s is -1"):
        static_makespan_s([3, -1], slots=4)
    with pytest.raises(ValueError, match="slots is 0"):
        upper_bound_s([3], slots=0)
