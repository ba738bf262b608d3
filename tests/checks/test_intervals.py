"""Sets of seconds against sets of whole seconds."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from checks.intervals import common, total, union, without

pieces = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6)


def seconds(intervals: list[tuple[float, float]] | list[tuple[int, int]]) -> set[int]:
    return {second for start, end in intervals for second in range(int(start), int(end))}


@given(pieces, pieces)
def test_they_are_what_sets_of_seconds_are(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    assert seconds(union(one)) == seconds(one)
    assert seconds(without(one, other)) == seconds(one) - seconds(other)
    assert seconds(common(one, other)) == seconds(one) & seconds(other)
    assert total(one) == len(seconds(one))


@given(pieces)
def test_a_union_is_in_order_and_apart(one: list[tuple[int, int]]) -> None:
    joined = union(one)
    assert all(start < end for start, end in joined)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(joined))
