"""Tasks needed: what more tasks and what more samples of each can give."""

import numpy as np
import pytest

from collector.records import Eval
from trainer.gate.comparisons import comparisons
from trainer.gate.report import Criterion, Trial
from trainer.gate_config import GateConfig

TASKS = [f"s/t{index}" for index in range(300)]


def trial(version: int, scores: np.ndarray) -> Trial:
    return Trial(
        version,
        tuple(
            Eval(adapter="bot", version=version, suite="s", task_id=f"t{task}", sample=n, score=float(v), passed=v == 1)
            for task, row in enumerate(scores)
            for n, v in enumerate(row)
        ),
    )


def compared(candidate: np.ndarray, live: np.ndarray, **settings: object) -> list[Criterion]:
    return comparisons(trial(2, candidate), trial(1, live), TASKS, GateConfig(**settings))  # type: ignore[arg-type]


def test_noise_between_tasks_is_not_taken_away_by_more_samples() -> None:
    random = np.random.default_rng(1)
    live = np.repeat(random.uniform(0.2, 0.8, (300, 1)), 4, axis=1)
    candidate = live + random.normal(0, 0.2, (300, 1))
    score = compared(candidate, live)[0]
    # (1.645 + 0.842)^2 * (0.2 / 0.02)^2 = 618
    assert score.tasks_needed == pytest.approx(618, rel=0.15)
    assert score.tasks_needed_at_least == score.tasks_needed


def test_noise_of_sampling_is() -> None:
    random = np.random.default_rng(1)
    live, candidate = (0.5 + random.normal(0, 0.4, (300, 4)) for _ in range(2))
    score = compared(candidate, live)[0]
    # sd of a difference of two means of 4: 0.4 * sqrt(2 / 4) = 0.283; 1236 tasks.
    assert score.tasks_needed == pytest.approx(1236, rel=0.15)
    assert score.tasks_needed_at_least is not None
    # What is left where no task differs: 1.5 * (1 - 0.05^(1/n)) = 0.02 at n = 225.
    assert 220 <= score.tasks_needed_at_least <= 400


def test_one_sample_says_nothing_of_sampling_and_nothing_of_pass_at_4() -> None:
    random = np.random.default_rng(1)
    score, pass_at_4 = compared(random.integers(0, 2, (300, 1)), random.integers(0, 2, (300, 1)))
    assert score.tasks_needed_at_least == score.tasks_needed
    assert (pass_at_4.name, pass_at_4.status) == ("pass@4", "no_data")
    assert pass_at_4.text.startswith("no task has 4 samples of both")


def test_at_k_1_only_the_score_is_judged() -> None:
    ones = np.ones((300, 1))
    assert [each.name for each in compared(ones, ones, pass_k=1)] == ["score"]


def test_a_single_task_is_said_to_be_too_few() -> None:
    score = comparisons(trial(2, np.ones((1, 4))), trial(1, np.ones((1, 4))), ["s/t0"], GateConfig())[0]
    assert (score.status, score.text) == ("inconclusive", "1 task is compared, expected two or more")
