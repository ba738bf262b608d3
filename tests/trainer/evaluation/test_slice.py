"""Slices: the same for one seed and cycle, all of the suite before any task again, fixes beside them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.evaluation.slice import Plan, fresh_slice, plan, sampling_seed

NAMES = [f"t{index}" for index in range(10)]


def test_every_task_is_used_before_any_is_used_again() -> None:
    slices = [fresh_slice(NAMES, tasks=3, cycle=cycle, seed=1) for cycle in range(10)]
    walked = [task for each in slices for task in each]
    assert sorted(walked[:10]) == sorted(NAMES)
    assert walked[:10] == walked[10:20]
    assert all(len(set(each)) == 3 for each in slices)
    assert set(Counter(walked).values()) == {3}


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 50), st.integers())
def test_no_slice_has_a_task_twice_and_use_differs_by_one_at_most(
    size: int, tasks: int, cycles: int, seed: int
) -> None:
    names = [f"n{index}" for index in range(size)]
    counts = Counter(dict.fromkeys(names, 0))
    for cycle in range(cycles):
        found = fresh_slice(names, tasks=tasks, cycle=cycle, seed=seed)
        assert len(set(found)) == len(found) == min(tasks, size)
        counts.update(found)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_it_depends_on_the_seed_and_not_on_the_order_of_the_file() -> None:
    first = fresh_slice(NAMES, tasks=5, cycle=0, seed=1)
    assert first == fresh_slice(NAMES[::-1], tasks=5, cycle=0, seed=1)
    assert first != fresh_slice(NAMES, tasks=5, cycle=0, seed=2)
    assert first != tuple(NAMES[:5])


def test_fixes_stand_beside_the_slice_and_take_turns() -> None:
    fixes = ["t1", "t2", "t3", "gone from the suite"]
    found = [plan(NAMES, fixes, tasks=2, most_fixes=2, cycle=cycle, seed=1) for cycle in range(3)]
    assert sorted(task for each in found for task in each.fixes) == ["t1", "t1", "t2", "t2", "t3", "t3"]
    assert plan(NAMES, fixes, tasks=2, most_fixes=0, cycle=0, seed=1).fixes == ()
    assert Plan(("a", "b"), ("b", "c")).tasks == ("a", "b", "c")


def test_a_replys_seed_is_its_own_and_fits_an_engine() -> None:
    seeds = [sampling_seed(0, "s", task, n) for task in NAMES for n in range(20)]
    assert len(set(seeds)) == 200
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert sampling_seed(0, "s", "t1", 0) == seeds[20]


def test_a_cycle_before_the_first_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle -1"):
        fresh_slice(NAMES, tasks=1, cycle=-1, seed=0)
