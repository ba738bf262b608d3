"""Sampling: log-probabilities, penalties and truncation against values worked by hand."""

import math
from collections import Counter

import pytest
import torch

from collector.engine.wire import SamplingParams
from trainer.engine.sampling import Draw, sample

LOG_PROBS = [math.log(p) for p in (0.5, 0.25, 0.15, 0.1)]


def draw(seed: int = 0, position: int = 0, output: list[int] | None = None, stop: set[int] | None = None, **given):
    return Draw(SamplingParams(**given), seed, position, output or [], frozenset(stop or set()))


def logits(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows)


def support(**given) -> set[int]:
    return {sample(logits(LOG_PROBS), [draw(seed, **given)])[0].token_id for seed in range(300)}


def test_logprob_is_scaled_by_the_temperature() -> None:
    row = [0.0, math.log(2), math.log(3)]
    # p = (1, 2, 3)/6 at T = 1; squared and renormalised, (1, 4, 9)/14, at T = 1/2; its roots at T = 2.
    for temperature, weights in ((1.0, (1, 2, 3)), (0.5, (1, 4, 9)), (2.0, (1, 2**0.5, 3**0.5))):
        for seed in range(20):
            token, logprob = sample(logits(row), [draw(seed, temperature=temperature)])[0]
            assert logprob == pytest.approx(math.log(weights[token] / sum(weights)), abs=1e-6)


def test_greedy_reports_the_logprob_at_temperature_one() -> None:
    token, logprob = sample(logits([0.0, math.log(2), math.log(3)]), [draw(temperature=0.0)])[0]
    assert token == 2
    assert logprob == pytest.approx(math.log(3 / 6), abs=1e-6)


def test_sampling_is_greedy_below_one_millionth_and_scaled_from_there_on() -> None:
    row = [0.0, 1e-6 * math.log(3)]
    below, at = draw(temperature=math.nextafter(1e-6, 0)), draw(temperature=1e-6)
    assert sample(logits(row), [below])[0] == (1, pytest.approx(math.log(0.5), abs=1e-6))
    # At 1e-6 the two are 1 : 3, and both are drawn.
    drawn = {sample(logits(row), [at._replace(seed=seed)])[0] for seed in range(50)}
    expected = {0: math.log(1 / 4), 1: math.log(3 / 4)}
    assert {token for token, _ in drawn} == {0, 1}
    assert all(logprob == pytest.approx(expected[token], abs=1e-4) for token, logprob in drawn)


def test_logprob_is_taken_before_truncation() -> None:
    token, logprob = sample(logits(LOG_PROBS), [draw(top_k=1)])[0]
    assert (token, logprob) == (0, pytest.approx(math.log(0.5), abs=1e-6))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {0, 1, 2, 3}),
        ({"top_p": 0.4}, {0}),
        # The mass before the third token is 0.75: not above 0.76, above 0.74.
        ({"top_p": 0.76}, {0, 1, 2}),
        ({"top_p": 0.74}, {0, 1}),
        ({"top_k": 3}, {0, 1, 2}),
        ({"top_k": 2, "top_p": 0.95}, {0, 1}),
        # The mass before the second token is 0.5, not the 2/3 that it is after top-k and renormalising.
        ({"top_k": 2, "top_p": 0.6}, {0, 1}),
        ({"min_p": 0.29}, {0, 1, 2}),
        ({"min_p": 0.31}, {0, 1}),
        ({"min_p": 0.31, "top_p": 0.3}, {0}),
    ],
)
def test_truncation_keeps_what_sglang_keeps(given: dict[str, float], kept: set[int]) -> None:
    assert support(**given) == kept


def test_truncated_draws_follow_the_renormalised_distribution() -> None:
    counts = Counter(sample(logits(LOG_PROBS), [draw(seed, top_k=2)])[0].token_id for seed in range(3000))
    # 2 of 3 on average; 5 standard deviations of a binomial of 3000 are 129.
    assert abs(counts[0] - 2000) < 130


def test_penalties_count_sampled_tokens_only() -> None:
    row = [1.0, 2.0, -1.0, 0.5]
    given = {"presence_penalty": 0.5, "frequency_penalty": 0.25, "repetition_penalty": 2.0, "temperature": 0.0}
    _, logprob = sample(logits(row), [draw(output=[1, 1, 2], **given)])[0]
    # Token 1: 2 - 2·0.25 - 0.5 = 1, positive, so 1/2. Token 2: -1 - 0.25 - 0.5 = -1.75, negative, so ·2.
    changed = [1.0, 0.5, -3.5, 0.5]
    assert logprob == pytest.approx(1.0 - math.log(sum(map(math.exp, changed))), abs=1e-6)


def test_logit_bias_comes_after_the_repetition_penalty() -> None:
    row = [0.0, 1.0]
    params = {"repetition_penalty": 2.0, "logit_bias": {"1": 3.0}, "temperature": 0.0}
    token, logprob = sample(logits(row), [draw(output=[1], **params)])[0]
    # 1/2 + 3, not (1 + 3)/2.
    assert (token, logprob) == (1, pytest.approx(3.5 - math.log(1 + math.exp(3.5)), abs=1e-6))


def test_stop_tokens_are_forbidden_before_min_new_tokens() -> None:
    row = [0.0, 9.0]
    early = sample(logits(row), [draw(output=[0], stop={1}, min_new_tokens=2)])[0]
    assert early == (0, pytest.approx(0.0))
    late = sample(logits(row), [draw(output=[0, 0], stop={1}, min_new_tokens=2, temperature=0.0)])[0]
    assert late.token_id == 1


def test_a_draw_depends_on_seed_and_position_only() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(5, 50, generator=generator)
    draws = [draw(seed, position) for seed, position in ((1, 7), (2, 7), (3, 9), (-4, 9), (5, 9))]
    together = sample(rows.clone(), draws)
    alone = [sample(rows[index : index + 1].clone(), [draws[index]])[0] for index in range(5)]
    assert together == alone


def test_draws_follow_the_distribution_over_seeds_and_over_positions() -> None:
    by_seed = Counter(sample(logits(LOG_PROBS), [draw(seed)])[0].token_id for seed in range(4000))
    by_position = Counter(sample(logits(LOG_PROBS), [draw(5, position)])[0].token_id for position in range(4000))
    for counts in (by_seed, by_position):
        for token, share in enumerate((0.5, 0.25, 0.15, 0.1)):
            # Five standard deviations of a binomial.
            assert abs(counts[token] - 4000 * share) < 5 * (4000 * share * (1 - share)) ** 0.5


def test_rounding_noise_does_not_change_a_draw() -> None:
    generator = torch.Generator().manual_seed(0)
    row = torch.randn(1, 50_000, generator=generator)
    noisy = row + 1e-5 * torch.randn(1, 50_000, generator=generator)
    for seed in range(60):
        assert sample(row.clone(), [draw(seed)])[0].token_id == sample(noisy.clone(), [draw(seed)])[0].token_id


def test_a_row_without_finite_logits_is_not_sampled_and_harms_no_other() -> None:
    rows = logits([float("nan"), 0.0], [-math.inf, -math.inf], [0.0, 0.0])
    broken, impossible, fine = sample(rows, [draw(), draw(), draw()])
    assert not broken.is_real
    assert not impossible.is_real
    assert fine.is_real
    assert fine.logprob == pytest.approx(math.log(0.5), abs=1e-6)
