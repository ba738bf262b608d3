"""Tests of trainer.plan.speculative: lecture 12, section 2 and exercise 2."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.plan.speculative import (
    acceptance,
    drift_tv_of_kl,
    drifted_acceptance_floor,
    output_law,
    tokens_per_pass,
    total_variation,
)


@st.composite
def laws(draw: st.DrawFn, count: int) -> list[list[float]]:
    """Distributions over the same tokens, zeros included."""
    size = draw(st.integers(1, 8))
    made: list[list[float]] = []
    for _ in range(count):
        weights = draw(st.lists(st.floats(0, 1), min_size=size, max_size=size).filter(lambda ws: sum(ws) > 0.01))
        made.append([weight / math.fsum(weights) for weight in weights])
    return made


def test_tokens_a_pass_with_four_drafts() -> None:
    assert tokens_per_pass(acceptance_rate=0.8, draft_tokens=4) == pytest.approx(3.36, abs=0.005)
    assert tokens_per_pass(acceptance_rate=0.5, draft_tokens=4) == pytest.approx(1.94, abs=0.005)
    assert tokens_per_pass(acceptance_rate=1, draft_tokens=4) == 5
    assert tokens_per_pass(acceptance_rate=0, draft_tokens=4) == 1


@settings(deadline=None)
@given(acceptance_rate=st.floats(0, 1), draft_tokens=st.integers(0, 10))
def test_tokens_a_pass_are_the_chances_that_each_draft_is_reached_and_kept(
    acceptance_rate: float, draft_tokens: int
) -> None:
    expected = math.fsum(acceptance_rate**kept for kept in range(draft_tokens + 1))
    assert tokens_per_pass(acceptance_rate=acceptance_rate, draft_tokens=draft_tokens) == pytest.approx(expected)


@settings(deadline=None)
@given(laws(2))
def test_what_comes_out_follows_the_policy(pair: list[list[float]]) -> None:
    policy, drafter = pair
    assert output_law(policy, drafter) == pytest.approx(policy, abs=1e-12)


@settings(deadline=None)
@given(laws(2))
def test_acceptance_is_one_minus_the_total_variation(pair: list[list[float]]) -> None:
    assert acceptance(*pair) == pytest.approx(1 - total_variation(*pair), abs=1e-12)


@settings(deadline=None)
@given(laws(3))
def test_acceptance_never_falls_by_more_than_the_policy_moved(three: list[list[float]]) -> None:
    before, after, drafter = three
    floor = drifted_acceptance_floor(
        acceptance_rate=min(1.0, acceptance(before, drafter)),
        policy_drift_tv=min(1.0, total_variation(before, after)),
    )
    assert acceptance(after, drafter) >= floor - 1e-12


@settings(deadline=None)
@given(laws(2))
def test_a_kl_bounds_the_total_variation(pair: list[list[float]]) -> None:
    policy, other = pair
    if all(q > 1e-9 for q in other):
        kl = math.fsum(p * math.log(p / q) for p, q in zip(policy, other, strict=True) if p > 0)
        assert total_variation(policy, other) <= drift_tv_of_kl(max(0.0, kl)) + 1e-7


def test_the_law_matches_sampling_it() -> None:
    policy, drafter, draw = [0.6, 0.3, 0.1], [0.1, 0.3, 0.6], random.Random(7)
    kept = 0
    counts = [0, 0, 0]
    for _ in range(20_000):
        token = draw.choices(range(3), drafter)[0]
        if draw.random() < policy[token] / drafter[token]:
            kept += 1
        else:
            token = draw.choices(range(3), [max(0, p - q) for p, q in zip(policy, drafter, strict=True)])[0]
        counts[token] += 1
    assert kept / 20_000 == pytest.approx(acceptance(policy, drafter), abs=0.015)
    assert [count / 20_000 for count in counts] == pytest.approx(policy, abs=0.015)


def test_what_is_not_a_distribution_is_refused() -> None:
    with pytest.raises(ValueError, match=r"policy sums to 0\.9"):
        acceptance([0.5, 0.4], [0.5, 0.5])
    with pytest.raises(ValueError, match="policy has 1 tokens and drafter 2"):
        acceptance([1.0], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"acceptance_rate is 1\.2"):
        tokens_per_pass(acceptance_rate=1.2, draft_tokens=4)
