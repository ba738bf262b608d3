"""Slow trends, against SciPy."""

import numpy as np
import pytest
from scipy.stats import kendalltau, theilslopes

from checks.trend import LEAST, kendall_sigmas, rise_over_run, theil_sen
from tests.checks.simulated_runs import Noise, autocorrelated


def test_the_slope_is_scipys() -> None:
    values = np.random.default_rng(1).normal(size=30) + 0.1 * np.arange(30)
    assert theil_sen(values) == pytest.approx(theilslopes(values).slope, rel=1e-12)


def test_kendalls_sigmas_are_scipys_tau_over_its_spread() -> None:
    values = np.random.default_rng(2).normal(size=20)
    tau = kendalltau(np.arange(20), values).statistic
    spread = np.sqrt(2 * (2 * 20 + 5) / (9 * 20 * 19))
    assert kendall_sigmas(values) == pytest.approx(tau / spread, rel=1e-12)


def test_a_line_rises_by_what_it_rises() -> None:
    assert rise_over_run(np.arange(200.0)) == pytest.approx(190), "between the medians of first and last ten"


def test_autocorrelated_noise_is_seldom_a_trend() -> None:
    rng = np.random.default_rng(3)
    found = [rise_over_run(autocorrelated(rng, 400, Noise(0.8, 5))) is not None for _ in range(200)]
    assert sum(found) <= 4


def test_too_short_a_series_has_no_trend() -> None:
    assert rise_over_run(np.arange(LEAST - 1.0)) is None
