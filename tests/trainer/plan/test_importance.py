"""Tests of trainer.plan.importance: lecture 12, section 1."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.plan.importance import importance_weight, truncation_bias, truncation_bias_factor


def test_the_lecture_s_token_above_the_cap() -> None:
    assert importance_weight(mu=0.01, pi=0.20) == pytest.approx(20)
    assert truncation_bias_factor(mu=0.01, pi=0.20, cap=2) == pytest.approx(0.18)


def test_an_ordinary_correction_has_no_bias() -> None:
    assert importance_weight(mu=0.50, pi=0.55) == pytest.approx(1.1)
    assert truncation_bias_factor(mu=0.50, pi=0.55, cap=2) == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1), st.floats(-5, 5)), min_size=1, max_size=8))
def test_the_bias_is_what_truncating_loses(tokens: list[tuple[float, float, float]]) -> None:
    total_mu, total_pi = (math.fsum(token[at] for token in tokens) or 1.0 for at in (0, 1))
    mu, pi, f = [t[0] / total_mu for t in tokens], [t[1] / total_pi for t in tokens], [t[2] for t in tokens]
    exact = math.fsum(p * value for p, value in zip(pi, f, strict=True))
    truncated = math.fsum(m * min(p / m, 2) * value for m, p, value in zip(mu, pi, f, strict=True))
    assert truncation_bias(mu, pi, f, cap=2) == pytest.approx(exact - truncated, abs=1e-9)


def test_a_token_that_mu_cannot_sample_has_no_weight() -> None:
    with pytest.raises(ValueError, match="mu is 0"):
        importance_weight(mu=0, pi=0.2)
