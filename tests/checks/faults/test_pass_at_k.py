"""pass@k against pass@1, from evaluations, groups and metric logs."""

from fractions import Fraction
from typing import Any

import pytest

from tests.checks.records import check


def samples(counts: list[tuple[int, int]], **fields: Any) -> list[dict[str, Any]]:
    """Tasks of (samples, successes)."""
    return [
        {"adapter": "a", "suite": "s", "task_id": f"t{task}", "sample": at, "passed": at < successes} | fields
        for task, (count, successes) in enumerate(counts)
        for at in range(count)
    ]


def test_the_mean_is_over_tasks_with_enough_samples_and_says_how_many() -> None:
    found = check("pass-at-k", evals=samples([(4, 1), (4, 3), (2, 1)]))
    assert found.metrics["pass_at_1"] == float(Fraction(1, 4) + Fraction(3, 4) + Fraction(1, 2)) / 3
    assert found.metrics["pass_at_2"] == pytest.approx(float((Fraction(1, 2) + 1 + 1) / 3), rel=1e-15)
    assert found.metrics["pass_at_4"] == 1.0
    assert [(row["k"], row["tasks"], row["of"]) for row in found.breakdown] == [(1, 3, 3), (2, 3, 3), (4, 2, 3)]


def test_one_sample_a_task_has_no_pass_at_more() -> None:
    assert set(check("pass-at-k", evals=samples([(1, 1), (1, 0)])).metrics) == {"pass_at_1"}


def test_the_widest_k_need_not_be_a_power_of_two() -> None:
    metrics = check("pass-at-k", evals=samples([(10, 3)])).metrics
    assert sorted(metrics) == [f"pass_at_{k}" for k in (1, 10, 2, 4, 5, 8)]


def test_a_score_of_one_passes_where_nothing_else_is_said() -> None:
    evals = [{"task_id": "t", "sample": at, "score": score} for at, score in enumerate((1.0, 0.99, 0.0, 1.0))]
    assert check("pass-at-k", evals=evals).metrics["pass_at_1"] == 0.5


def test_the_metrics_are_of_the_newest_evaluation() -> None:
    evals = [*samples([(2, 0)], version=1), *samples([(2, 2)], version=2)]
    assert check("pass-at-k", evals=evals).metrics == {"pass_at_1": 1.0, "pass_at_2": 1.0}


def test_suites_are_not_pooled() -> None:
    evals = [*samples([(4, 0)], suite="x"), *samples([(2, 2)], suite="y")]
    assert check("pass-at-k", evals=evals).metrics == {"pass_at_1": 0.0, "pass_at_2": 0.0, "pass_at_4": 0.0}


def test_pass_at_1_up_and_pass_at_k_down_is_a_collapse() -> None:
    before, after = [(8, 2)] * 18 + [(8, 0)] * 2, [(8, 8)] * 11 + [(8, 0)] * 9
    evals = [*samples(before, version=1), *samples(after, version=2)]
    found = check("pass-at-k", evals=evals, versions=[{"adapter": "a", "version": 2, "optimizer_step": 40}])
    assert found.status == "warn"
    (collapse,) = found.evidence
    assert (collapse.step, collapse.adapter, collapse.value) == (40, "a", pytest.approx(-7 / 20))


def test_both_up_is_progress_and_a_small_fall_is_noise() -> None:
    up = [*samples([(8, 2)] * 20, version=1), *samples([(8, 5)] * 20, version=2)]
    assert check("pass-at-k", evals=up).status == "ok"
    noise = [*samples([(8, 1), (8, 4)] * 5, version=1), *samples([(8, 0), (8, 6)] + [(8, 1), (8, 4)] * 4, version=2)]
    assert check("pass-at-k", evals=noise).status == "ok"


def test_groups_of_training_sessions_serve_without_evaluations() -> None:
    turns = [
        {"session_id": f"{group}{at}", "group_id": group, "reward": reward}
        for group, rewards in (("a", (1, 0)), ("b", (0, 0)))
        for at, reward in enumerate(rewards)
    ]
    assert check("pass-at-k", turns=turns).metrics == {"pass_at_1": 0.25, "pass_at_2": 0.5}
    graded = [turn | {"reward": 0.3 + turn["reward"]} for turn in turns]
    assert check("pass-at-k", turns=graded).status == "no_data", "rewards of more than two kinds do not say solved"


def test_a_metric_log_gives_what_it_holds() -> None:
    steps = [{"step": 2, "pass_at_1": 0.5, "pass_at_k": 0.7, "pass_k": 8}, {"step": 1, "pass_at_1": 0.1}]
    found = check("pass-at-k", steps=steps)
    assert found.metrics == {"pass_at_1": 0.5, "pass_at_8": 0.7}
    assert check("pass-at-k", steps=[{"step": 1}]).status == "no_data"
