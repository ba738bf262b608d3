"""Train reward against the held-out score."""

import math
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


def evaluated(solved: dict[int, int], adapter: str | None = "a") -> list[dict[str, Any]]:
    """Version to how many of 20 tasks it solves, the first ones."""
    return [
        {"adapter": adapter, "version": version, "suite": "s", "task_id": f"t{task}", "score": float(task < count)}
        for version, count in solved.items()
        for task in range(20)
    ]


def line(*parents: int | None, adapter: str = "a") -> list[dict[str, Any]]:
    """Versions 0, 1 and so on, ten steps each."""
    return [
        {"adapter": adapter, "version": version, "parent": parent, "optimizer_step": 10 * version}
        for version, parent in enumerate(parents)
    ]


REWARDED = [{"step": step, "adapter": "a", "reward_mean": 0.5} for step in (1, 10, 20, 30)]


def test_the_fall_of_a_version_is_told_where_there_are_too_few_for_noise() -> None:
    found = check("reward-eval-gap", steps=REWARDED, evals=evaluated({0: 8, 1: 16, 2: 4}), versions=line(None, 0, 1))
    assert found.status == "warn"
    (fall,) = found.evidence
    assert (fall.adapter, fall.step, fall.value) == ("a", 20, pytest.approx(-12 / 20))
    assert fall.text == "a: held-out fell from 0.8 at v1 to 0.2 at v2, over the 20 tasks of both"
    assert fall.detail["since"] == 10
    # 12 of 20 fell by 1: the standard error is sqrt(0.6 * 0.4 / 19), and Student's 97.5 % point with 19 is 2.0930.
    assert fall.detail["high"] == pytest.approx(-0.6 + 2.0930 * math.sqrt(0.24 / 19), abs=2e-3)
    assert found.summary == f"train 0.5, held-out 0.2; {fall.text}"


@pytest.mark.parametrize(
    ("solved", "parents"),
    [
        ({0: 8, 1: 16}, (None, 0)),
        ({0: 12, 1: 9}, (None, 0)),
        # Version 2 was refused, and 3 began where 2 had begun.
        ({0: 8, 1: 16, 2: 4, 3: 17}, (None, 0, 1, 1)),
    ],
)
def test_a_rise_and_a_little_less_and_what_was_made_good_are_no_fall(
    solved: dict[int, int], parents: tuple[int | None, ...]
) -> None:
    found = check("reward-eval-gap", steps=REWARDED, evals=evaluated(solved), versions=line(*parents))
    assert (found.status, found.evidence) == ("ok", ())
    assert found.summary.endswith("; fewer than 5 evaluations beside train reward, no movement told")


def test_with_enough_evaluations_noise_decides() -> None:
    solved = {0: 8, 1: 16, 2: 5, 3: 14, 4: 3}
    steps = [{"step": 10 * n, "adapter": "a", "reward_mean": 0.5} for n in range(5)]
    found = check("reward-eval-gap", steps=steps, evals=evaluated(solved), versions=line(None, 0, 1, 2, 3))
    assert (found.status, found.evidence) == ("ok", ())


def test_evaluations_without_train_reward_beside_them_are_too_few_for_noise() -> None:
    solved = {0: 19, 1: 18, 2: 19, 3: 18, 4: 19, 5: 2}
    steps = [{"step": step, "adapter": "a", "reward_mean": 0.5} for step in (1, 10, 20)]
    found = check("reward-eval-gap", steps=steps, evals=evaluated(solved), versions=line(None, 0, 1, 2, 3, 4))
    assert [each.text for each in found.evidence] == [
        "a: held-out fell from 0.95 at v4 to 0.1 at v5, over the 20 tasks of both"
    ]


def test_one_version_evaluated_at_two_steps_is_told_by_its_steps() -> None:
    evals = [each | {"version": 0, "step": 10 * each["version"]} for each in evaluated({1: 16, 2: 2})]
    found = check("reward-eval-gap", steps=REWARDED, evals=evals)
    assert [each.text for each in found.evidence] == [
        "a: held-out fell from 0.8 at step 10 to 0.1 at step 20, over the 20 tasks of both"
    ]


def test_falls_of_several_adapters_are_told_apart() -> None:
    evals = evaluated({0: 8, 1: 16}) + evaluated({0: 19, 1: 2}, "b") + evaluated({4: 19, 5: 2}, None)
    found = check("reward-eval-gap", steps=REWARDED, evals=evals, versions=line(None, 0) + line(None, 0, adapter="b"))
    assert {each.adapter for each in found.evidence} == {None, "b"}
    of_none = next(each for each in found.evidence if each.adapter is None)
    assert of_none.text == "held-out fell from 0.95 at v4 to 0.1 at v5, over the 20 tasks of both"


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
