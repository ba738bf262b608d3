"""Unbiased pass@k against exact fractions and counted subsets."""

import itertools
import math
from fractions import Fraction

import pytest

from checks.pass_rate import pass_at_k


@pytest.mark.parametrize(
    ("samples", "successes", "k", "exact"),
    [(10, 3, 1, "3/10"), (10, 3, 5, "11/12"), (10, 0, 5, "0"), (4, 4, 2, "1"), (5, 2, 4, "1"), (4, 1, 4, "1")],
)
def test_known_values_are_exact(samples: int, successes: int, k: int, exact: str) -> None:
    assert pass_at_k(samples, successes, k) == float(Fraction(exact))


def test_every_small_value_is_the_share_of_subsets_with_a_success() -> None:
    for samples in range(1, 7):
        for successes in range(samples + 1):
            for k in range(1, samples + 1):
                subsets = list(itertools.combinations([True] * successes + [False] * (samples - successes), k))
                assert pass_at_k(samples, successes, k) == sum(map(any, subsets)) / len(subsets)


def test_fewer_samples_than_k_are_left_out() -> None:
    assert pass_at_k(2, 0, 5) is None
    assert pass_at_k(99, 99, 100) is None


@pytest.mark.parametrize(("successes", "k"), [(1, 1), (50, 1000), (3, 50_000), (40_000, 2), (99_999, 1), (1, 99_999)])
def test_a_hundred_thousand_samples_neither_overflow_nor_lose_digits(successes: int, k: int) -> None:
    samples, misses = 100_000, Fraction(1)
    for index in range(min(successes, k)):
        misses *= Fraction(samples - max(successes, k) - index, samples - index)
    assert pass_at_k(samples, successes, k) == pytest.approx(float(1 - misses), rel=1e-11)


def test_the_two_ways_to_compute_it_agree_where_they_meet() -> None:
    found = pass_at_k(1001, 5, 20)
    exact = 1 - Fraction(math.comb(996, 20), math.comb(1001, 20))
    assert found == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize(("samples", "successes", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_counts_are_refused(samples: int, successes: int, k: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= successes <= samples, k >= 1"):
        pass_at_k(samples, successes, k)
