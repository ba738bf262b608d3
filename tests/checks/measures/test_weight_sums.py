"""The worst token of each run of tokens, against a search one by one; and whatever two floats can differ by in bins."""

import numpy as np
import polars as pl
import pytest

from checks.measures.scored_tokens import ScoredTokens
from checks.measures.weight_sums import HISTOGRAM_BINS, histogram, worst_tokens


def _tokens(log_w: list[float]) -> ScoredTokens:
    old = np.array(log_w, dtype=np.float64)
    return ScoredTokens(np.zeros(len(old)), old, np.array([0, len(old)]))


def _worst(log_w: list[float], begin: int, end: int) -> int:
    return min(range(begin, end), key=lambda token: (-abs(log_w[token]), log_w[token], token))


def test_of_equal_distances_the_least_w_is_worst_and_then_the_first() -> None:
    log_w = [0.5, -0.5, -0.5, 0.0, 0.0, 2.0, -1.0, 0.0, 3.0]
    begin, end = np.array([0, 3, 5, 8]), np.array([3, 5, 7, 9])
    assert worst_tokens(_tokens(log_w), begin, end).tolist() == [1, 3, 5, 8]


@pytest.mark.parametrize("most", [1, 7, 5_000])
def test_runs_of_any_length_with_gaps_between_them(most: int) -> None:
    rng = np.random.default_rng(most)
    lengths, gaps = rng.integers(1, most + 1, 60), rng.integers(0, 3, 60)
    begin = np.cumsum(lengths + gaps) - lengths
    log_w = np.round(rng.normal(0, 1, int(begin[-1] + lengths[-1])), 1).tolist()
    found = worst_tokens(_tokens(log_w), begin, begin + lengths)
    assert found.tolist() == [
        _worst(log_w, *ends) for ends in zip(begin.tolist(), (begin + lengths).tolist(), strict=True)
    ]


def test_no_run_has_no_worst_token() -> None:
    none = np.array([], dtype=np.int64)
    assert worst_tokens(_tokens([1.0]), none, none).tolist() == []


def test_what_lies_beyond_any_bin_is_in_the_outer_ones() -> None:
    mu = np.array([0.0, 0.0, -1e308, 1e308, -0.5])
    old = np.array([-1e308, 1e308, 1e308, -1e308, -0.49])
    tokens = ScoredTokens(mu=mu, old=old, offsets=np.array([0, 5]), where=None)
    found = histogram(tokens, np.array([0]), pl.DataFrame({"adapter": ["a"]}), ["adapter"])
    # log w of the last is 0.01: the first bin right of the middle.
    assert dict(found.select("bin", "n").iter_rows()) == {0: 2, HISTOGRAM_BINS - 1: 2, HISTOGRAM_BINS // 2: 1}
