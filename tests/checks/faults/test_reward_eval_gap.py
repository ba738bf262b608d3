"""Train reward against the held-out score."""

from typing import Any

import numpy as np
import pytest

from tests.checks.records import check
from tests.checks.simulated_runs import Noise, autocorrelated


def run_of(length: int, every: int, falls_from: int | None, seed: int, rises: float = 0.3) -> list[dict[str, Any]]:
    """Train rises all along; held-out rises too, and from a step on falls instead."""
    rng = np.random.default_rng(seed)
    at = np.arange(1, length + 1)
    train = 0.3 + rises * at / length + 0.03 * autocorrelated(rng, length, Noise(0.5, 8))
    held = 0.3 + 0.2 * at / length + 0.015 * rng.normal(size=length)
    if falls_from is not None:
        held -= 0.6 * np.clip(at - falls_from, 0, None) / length
    return [
        {"step": int(step), "reward_mean": float(t), "reward_eval": float(h) if step % every == 0 else None}
        for step, t, h in zip(at, train, held, strict=True)
    ]


def test_the_last_figures_and_their_difference() -> None:
    steps = [{"step": 2, "reward_mean": 0.75, "reward_eval": 0.5}, {"step": 1, "reward_mean": 0.1, "reward_eval": 0.9}]
    found = check("reward-eval-gap", steps=steps)
    assert found.metrics == {"reward_train_last": 0.75, "reward_eval_last": 0.5, "reward_eval_gap_last": 0.25}
    assert (found.status, found.value) == ("ok", 0.25)


def test_train_up_while_held_out_falls_is_told_where_it_begins() -> None:
    found = check("reward-eval-gap", steps=run_of(400, 10, 200, seed=1))
    assert found.status == "warn"
    (first,) = found.evidence
    assert first.step is not None
    assert 200 < first.step <= 280


@pytest.mark.parametrize("every", [1, 10, 40])
def test_healthy_runs_are_quiet(every: int) -> None:
    quiet = [check("reward-eval-gap", steps=run_of(400, every, None, seed)).status == "ok" for seed in range(20)]
    assert sum(quiet) >= 19


def test_held_out_falling_with_train_is_no_opposite_movement() -> None:
    found = check("reward-eval-gap", steps=run_of(400, 10, 200, seed=2, rises=-0.3))
    assert found.status == "ok"


def test_sessions_and_evaluations_serve_without_metric_logs() -> None:
    turns = [
        {"session_id": f"{step}{at}", "trainer_step": step, "reward": reward}
        for step, rewards in ((1, (0, 1)), (2, (1, 1)))
        for at, reward in enumerate(rewards)
    ]
    turns.append({"session_id": "probe", "trainer_step": 2, "reward": 0.0, "purpose": "probe"})
    evals = [
        {"version": 7, "suite": "s", "task_id": task, "sample": 0, "score": score}
        for task, score in (("t", 1.0), ("u", 0.5))
    ]
    found = check("reward-eval-gap", turns=turns, evals=evals)
    assert found.metrics == {"reward_train_last": 1.0, "reward_eval_last": 0.75, "reward_eval_gap_last": 0.25}


def test_tasks_weigh_the_same_whatever_their_samples() -> None:
    evals = [{"version": 1, "task_id": "t", "sample": at, "score": 1.0} for at in range(3)]
    evals.append({"version": 1, "task_id": "u", "sample": 0, "score": 0.0})
    found = check("reward-eval-gap", steps=[{"step": 1, "reward_mean": 0.5}], evals=evals)
    assert found.metrics["reward_eval_last"] == 0.5


def test_one_of_the_two_alone_is_no_data_and_says_which() -> None:
    found = check("reward-eval-gap", steps=[{"step": 1, "reward_mean": 0.5}])
    assert (found.status, found.missing) == ("no_data", ("evals.score", "steps.reward_eval"))
