"""Ids are aligned by the longest run in common, then on either side of it, as trying every pair of places finds."""

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from console.watch.trace.id_diff import LEAST, LEAST_AT_END, MOST_RUNS, Run, runs

IDS = st.lists(st.integers(0, 2), max_size=24)


def alike(before: Sequence[int], now: Sequence[int], i: int, j: int) -> int:
    count = 0
    while i + count < len(before) and j + count < len(now) and before[i + count] == now[j + count]:
        count += 1
    return count


def by_brute_force(before: list[int], now: list[int], i: int = 0, j: int = 0, *, last: bool = True) -> list[Run]:
    """The kept runs, by the definition."""
    best = Run("same", 0, 0, 0)
    for at in range(len(before)):
        for at_now in range(len(now)):
            length = alike(before, now, at, at_now)
            if length > best.length:
                best = Run("same", at, at_now, length)
    if best.length < LEAST:
        best = at_the_end(before, now) if last else best._replace(length=0)
    if not best.length:
        return []
    at, at_now, length = best.before, best.now, best.length
    left = by_brute_force(before[:at], now[:at_now], i, j, last=False)
    after, after_now = at + length, at_now + length
    right = by_brute_force(before[after:], now[after_now:], i + after, j + after_now, last=last)
    return [*left, Run("same", i + at, j + at_now, length), *right]


def at_the_end(before: list[int], now: list[int]) -> Run:
    for length in range(LEAST - 1, LEAST_AT_END - 1, -1):
        for at_now in range(len(now) - length + 1):
            if length <= len(before) and before[len(before) - length :] == now[at_now : at_now + length]:
                return Run("same", len(before) - length, at_now, length)
    return Run("same", 0, 0, 0)


def put_together(before: Sequence[int], now: Sequence[int], found: Sequence[Run]) -> None:
    """The runs are both lists, in order and without a gap."""
    i = j = 0
    for run in found:
        assert (run.before, run.now) == (i, j)
        assert run.length > 0
        if run.kind == "same":
            assert list(before[i : i + run.length]) == list(now[j : j + run.length])
        i += run.length * (run.kind != "added")
        j += run.length * (run.kind != "removed")
    assert (i, j) == (len(before), len(now))


@given(IDS, IDS)
def test_kept_runs_are_those_of_the_definition(before: list[int], now: list[int]) -> None:
    found = runs(before, now)
    put_together(before, now, found)
    assert [run for run in found if run.kind == "same"] == by_brute_force(before, now)


def test_long_lists_are_aligned_as_short_ones_are() -> None:
    source = random.Random(3)
    for vocabulary in (3, 40, 100_000):
        before = [source.randrange(vocabulary) for _ in range(150)]
        now = [*before[:40], *(source.randrange(vocabulary) for _ in range(50)), *before[70:], 1, 2, 3]
        found = runs(before, now)
        put_together(before, now, found)
        assert [run for run in found if run.kind == "same"] == by_brute_force(before, now)


def test_lists_with_countless_runs_are_aligned_as_far_as_it_says() -> None:
    before = [number for block in range(MOST_RUNS + 100) for number in (block, 1, 2, block, 70_000 + block)]
    now = [number if number < 70_000 else number + 10_000 for number in before]
    found = runs(before, now)
    put_together(before, now, found)
    assert sum(run.kind == "same" for run in found) == MOST_RUNS


def test_thinking_that_is_gone_and_an_answer_that_stays() -> None:
    before = [1, 2, 3, 4, 90, 91, 92, 93, 94, 95, 7, 8, 9, 3]
    now = [1, 2, 3, 4, 7, 8, 9, 3, 50, 51]
    assert runs(before, now) == [
        Run("same", 0, 0, 4),
        Run("removed", 4, 4, 6),
        Run("same", 10, 4, 4),
        Run("added", 14, 8, 2),
    ]


def test_an_id_that_both_have_by_chance_is_no_alignment() -> None:
    before = [*range(10, 20), 5, *range(20, 30), 2, 2, 2, 2]
    now = [*range(110, 120), 5, *range(120, 130), 2, 2, 2, 2]
    assert [(run.kind, run.length) for run in runs(before, now)] == [("removed", 21), ("added", 21), ("same", 4)]


def test_a_short_run_at_the_end_of_the_earlier_list_is_kept() -> None:
    assert runs([9, 9, 4, 5], [8, 8, 4, 5, 7]) == [
        Run("removed", 0, 0, 2),
        Run("added", 2, 0, 2),
        Run("same", 2, 2, 2),
        Run("added", 4, 4, 1),
    ]


def test_nothing_and_something() -> None:
    assert runs([], []) == []
    assert runs([], [1, 2]) == [Run("added", 0, 0, 2)]
    assert runs([1], []) == [Run("removed", 0, 0, 1)]
