"""The verdict by hand, and how often simulated engines get a wrong version proved: never, whatever their noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer.publish.judgement import FLOOR_NATS, Hypothesis, Judgement, Noise, judge, noise_of

Numbers = np.ndarray[Any, np.dtype[np.float64]]
TOKENS = 18
NEW = np.full(TOKENS, -2.0)
PREVIOUS = np.full(TOKENS, -2.5)
BASE = np.full(TOKENS, -4.0)
PREDICTED: dict[Hypothesis, Numbers] = {"new": NEW, "previous": PREVIOUS, "base": BASE}
NOISE = Noise(floor=0.01, expected=0.1, limit=0.3)


def verdict(observed: Numbers) -> tuple[str, str]:
    found = judge(observed, PREDICTED, NOISE)
    return found.verdict, found.served


def test_the_ratios_are_those_of_normal_noise() -> None:
    """Off by 0.1 from the new version at each of 18 tokens: sigma is 0.1, the others are off by 0.4 and 1.9."""
    found = judge(NEW - 0.1, PREDICTED, NOISE)
    assert found.ratios["previous"] == pytest.approx(18 * (0.4**2 - 0.1**2) / (2 * 0.1**2))
    assert found.ratios["base"] == pytest.approx(18 * (1.9**2 - 0.1**2) / (2 * 0.1**2))
    assert found.residuals == pytest.approx({"new": 0.1, "previous": 0.4, "base": 1.9})


def test_noise_is_never_assumed_below_the_floor() -> None:
    assert judge(NEW, PREDICTED, NOISE).ratios["previous"] == pytest.approx(18 * 0.25 / (2 * 0.01**2))


def test_each_version_is_told() -> None:
    assert verdict(NEW + 0.02) == ("proved", "new")
    assert verdict(PREVIOUS + 0.02) == ("refuted", "previous")
    assert verdict(BASE - 0.02) == ("refuted", "base")
    assert verdict(BASE - 3.0) == ("refuted", "unknown")
    assert verdict(NEW - 0.15) == ("undecided", "unknown")  # 0.35 / 0.15 is less than three times as far
    assert verdict(NEW + 0.2) == ("undecided", "unknown")  # far from both others, but noisier than expected
    assert verdict(NEW * np.nan) == ("refuted", "unknown")


def test_a_version_between_two_that_are_alike_is_refuted_without_a_name() -> None:
    predicted: dict[Hypothesis, Numbers] = {"new": NEW, "previous": BASE + 0.01, "base": BASE}
    found = judge(BASE, predicted, NOISE)
    assert (found.verdict, found.served) == ("refuted", "unknown")


def test_few_tokens_decide_nothing() -> None:
    found = judge(NEW[:11], {name: numbers[:11] for name, numbers in PREDICTED.items()}, NOISE)
    assert found.verdict == "undecided"
    assert "11 tokens compared, expected at least 12" in found.reason


def test_the_measured_noise_sets_what_is_expected() -> None:
    assert noise_of("float32", 2e-5) == Noise(2e-5, 1.6e-4, 2e-3)
    assert noise_of("float32", 1e-7) == Noise(1e-5, 8e-5, 2e-3)
    assert noise_of("bfloat16", 0.02) == Noise(0.02, 0.16, 0.25)
    # Not measured, or so far off that what is believed to be served is not: then only the limit is known.
    assert noise_of("bfloat16", None) == noise_of("bfloat16", 0.9) == Noise(FLOOR_NATS["bfloat16"], 0.25, 0.25)


Draw = Callable[[np.random.Generator, int], Numbers]


def normal(rng: np.random.Generator, tokens: int) -> Numbers:
    return rng.normal(0, 1, tokens)


def heavy(rng: np.random.Generator, tokens: int) -> Numbers:
    """Student's t with 3 degrees of freedom, scaled to a standard deviation of 1."""
    return rng.standard_t(3, tokens) / 3**0.5


def shared(rng: np.random.Generator, tokens: int) -> Numbers:
    """Half of the variance is common to the tokens of each of three passages."""
    return (np.repeat(rng.normal(0, 1, 3), tokens // 3) + rng.normal(0, 1, tokens)) / 2**0.5


def judged(rng: np.random.Generator, draw: Draw, *, served: str, distance: float, sigma: float = 0.02) -> Judgement:
    """One simulated worker: versions `distance` sigmas apart, its control measured on 90 tokens."""
    base = -rng.exponential(2.0, TOKENS)
    predicted: dict[Hypothesis, Numbers] = {
        "base": base,
        "previous": base + rng.normal(0, distance * sigma, TOKENS),
        "new": base + rng.normal(0, distance * sigma, TOKENS),
    }
    control = float(np.sqrt((draw(rng, 90) ** 2).mean())) * sigma
    truth = predicted[served] if served in predicted else (predicted["new"] + predicted["previous"]) / 2  # type: ignore[index]
    return judge(truth + sigma * draw(rng, TOKENS), predicted, noise_of("bfloat16", control))


@pytest.mark.parametrize("draw", [normal, heavy, shared])
@pytest.mark.parametrize("served", ["previous", "base", "a mixture"])
def test_a_version_that_is_not_served_is_not_proved(draw: Draw, served: str) -> None:
    rng = np.random.default_rng(7)
    # From versions that cannot be told apart to such that are far apart, the dangerous ones in between.
    found = [
        judged(rng, draw, served=served, distance=distance)
        for distance in (0.3, 1.0, 2.0, 3.0, 5.0, 10.0)
        for _ in range(500)
    ]
    assert sum(each.verdict == "proved" for each in found) == 0


@pytest.mark.parametrize("draw", [normal, heavy, shared])
def test_the_served_version_is_hardly_ever_refuted_and_proved_when_it_can_be(draw: Draw) -> None:
    rng = np.random.default_rng(8)
    for distance, least in ((0.3, 0.0), (5.0, 0.8), (10.0, 0.98)):
        found = [judged(rng, draw, served="new", distance=distance) for _ in range(500)]
        # One number that is 50 standard deviations off, as heavy tails have it now and then.
        assert sum(each.verdict == "refuted" for each in found) <= (1 if draw is heavy else 0)
        assert sum(each.verdict == "proved" for each in found) >= least * len(found)
