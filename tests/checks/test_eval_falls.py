"""Held-out falls: against the version that a version was trained from, sure, and not made good since."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from checks.columns import completed
from checks.eval_falls import LEAST_TASKS, eval_falls, fell
from checks.paired_tasks import paired

NOTHING = completed(pl.DataFrame(), "versions")
HIGH, MIDDLE, LOW = [1.0] * 14 + [0.0] * 2, [1.0] * 12 + [0.0] * 4, [1.0] + [0.0] * 15
"""Sixteen tasks. High to low: 13 fall and 3 stand."""


def evals(*scores: list[float] | None, adapter: str | None = "a") -> pl.DataFrame:
    """Evaluations of versions 0, 1 and so on, each with a score a task; None was not evaluated."""
    rows = [
        {"adapter": adapter, "version": version, "suite": "s", "task_id": f"t{task}", "sample": 0, "score": score}
        for version, of_version in enumerate(scores)
        for task, score in enumerate(of_version or ())
    ]
    return completed(pl.DataFrame(rows), "evals")


def versions(*line: tuple[int | None, int]) -> pl.DataFrame:
    """Versions 0, 1 and so on of `a`: what each was trained from, and the step it was saved at."""
    rows = [
        {"adapter": "a", "version": version, "parent": parent, "optimizer_step": step}
        for version, (parent, step) in enumerate(line)
    ]
    return completed(pl.DataFrame(rows), "versions")


def found(scores: pl.DataFrame, line: pl.DataFrame = NOTHING) -> list[tuple[int | None, int | None, int, int]]:
    """Each fall: version, the one before, and the steps on either side."""
    return [(each.version, each.parent, each.since, each.step) for each in eval_falls(scores, line, "a")]


def test_a_fall_is_told_with_its_scores_and_both_steps() -> None:
    (fall,) = eval_falls(evals(HIGH, LOW), versions((None, 0), (0, 40)), "a")
    assert (fall.version, fall.parent, fall.since, fall.first, fall.step) == (1, 0, 0, 1, 40)
    assert (fall.score.before, fall.score.after, fall.score.tasks) == (14 / 16, 1 / 16, 16)


def test_a_log_that_names_no_parents_is_read_by_the_evaluation_before() -> None:
    line = versions((None, 10), (None, 20), (None, 30))
    assert found(evals(LOW, HIGH, LOW), line) == [(2, 1, 20, 30)]


def test_of_two_records_of_a_version_the_one_that_names_its_parent_counts() -> None:
    line = pl.concat([versions((None, 0), (0, 10), (0, 20)), versions((None, 0), (None, 10), (None, 20))])
    assert [each[:2] for each in found(evals(HIGH, HIGH, LOW), line)] == [(2, 0)]


@pytest.mark.parametrize(
    "scores",
    [
        (LOW, HIGH),
        # float32 rounding of every score.
        ([0.9] * 16, [float(np.float32(0.9)) - 6e-8] * 16),
        ([900.0] * 16, [900.0 - 3e-4] * 16),
        (HIGH, MIDDLE),
        (HIGH, HIGH),
        ([1.0, 0.0] * 8, [0.0, 1.0] * 8),
        ([1.0] * (LEAST_TASKS - 1), [0.0] * (LEAST_TASKS - 1)),
        # Of 8 tasks 6 fall: 4.58 standard errors, but of so few that one in 800 pairs of equals does so.
        ([1.0] * 8, [0.0] * 6 + [1.0] * 2),
        (HIGH,),
    ],
)
def test_a_rise_few_tasks_and_what_may_be_chance_are_no_fall(scores: tuple[list[float], ...]) -> None:
    assert found(evals(*scores)) == []


def test_a_fall_of_every_task_alike_has_no_error_and_another_adapters_is_not_this_ones() -> None:
    (fall,) = eval_falls(evals([1.0] * 8, [0.5] * 8), NOTHING, "a")
    assert (fall.score.by, fall.score.errors) == (-0.5, None)
    assert eval_falls(evals([1.0] * 8, [0.5] * 8), NOTHING, "b") == ()


def test_a_version_is_compared_with_its_parent_not_with_one_that_was_refused() -> None:
    # 2 fell and was refused; 3 goes on from 1, at the very step of 2, and fell as well.
    line = versions((None, 0), (0, 1), (1, 9), (1, 9))
    assert found(evals(MIDDLE, HIGH, LOW, LOW), line) == [(2, 1, 1, 9), (3, 1, 1, 9)]


def test_two_versions_of_one_step_are_not_averaged() -> None:
    line = versions((None, 0), (0, 1), (1, 9), (1, 9))
    # 3 is as good as 1: what 2 lost is made good, and nothing stands.
    assert found(evals(MIDDLE, HIGH, LOW, HIGH), line) == []
    assert found(evals(MIDDLE, HIGH, HIGH, LOW), line) == [(3, 1, 1, 9)]


def test_a_fall_is_made_good_by_a_later_version_that_is_no_such_fall() -> None:
    line = versions((None, 0), (0, 4), (1, 8), (2, 12))
    assert found(evals(MIDDLE, HIGH, LOW, MIDDLE), line) == []
    # What goes on from the fallen one and is as bad is no fall of its own, and makes nothing good.
    assert found(evals(MIDDLE, HIGH, LOW, LOW), line) == [(2, 1, 4, 8)]


def test_a_parent_that_was_not_evaluated_stands_for_what_it_came_from() -> None:
    line = versions((None, 0), (0, 4), (1, 8))
    assert found(evals(HIGH, None, LOW), line) == [(2, 0, 0, 8)]


def test_without_a_line_of_versions_the_evaluation_before_is_compared() -> None:
    by_step = evals(HIGH, LOW, HIGH, LOW).with_columns(step=pl.col("version") * 10, version=pl.lit(None, pl.Int64))
    # The second fall stands; the first was made good by the evaluation between.
    assert found(by_step) == [(None, None, 20, 30)]


def test_a_registry_that_goes_round_in_a_circle_ends_the_walk() -> None:
    assert found(evals(HIGH, LOW), versions((1, 0), (0, 4))) != []
    assert found(evals(None, LOW), versions((None, 0), (1, 4))) == []


def healthy(random: np.random.Generator, tasks: int, samples: int, hard: float) -> Any:
    """Scores of two versions that are alike: tasks differ in how often they are solved."""
    solved = random.beta(2 * (1 - hard), 2 * hard, tasks)
    one, other = (random.binomial(samples, solved) / samples for _ in range(2))
    return dict(enumerate(one)), dict(enumerate(other))


@pytest.mark.parametrize("hard", [0.15, 0.5, 0.85])
@pytest.mark.parametrize(("tasks", "samples"), [(8, 1), (8, 4), (16, 2), (48, 2), (200, 1)])
def test_of_500_pairs_that_are_alike_at_most_one_is_named(tasks: int, samples: int, hard: float) -> None:
    random = np.random.default_rng([tasks, samples, round(100 * hard)])
    named = 0
    for _ in range(500):
        score = paired(*healthy(random, tasks, samples, hard))
        assert score is not None
        named += fell(score)
    assert named <= 1


def test_of_100_pairs_that_lost_half_at_least_95_are_named() -> None:
    random = np.random.default_rng(7)
    named = 0
    for _ in range(100):
        solved = random.beta(8, 2, 48)
        before, after = (random.binomial(2, share) / 2 for share in (solved, solved / 2))
        score = paired(dict(enumerate(before)), dict(enumerate(after)))
        assert score is not None
        named += fell(score)
    assert named >= 95
