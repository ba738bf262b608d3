"""Held-out suites are told apart: chosen by what is evaluated now, never pooled, never compared."""

from typing import Any

import polars as pl
import pytest

from checks.columns import completed
from checks.eval_falls import changes_by_suite, eval_falls
from checks.eval_points import stepped
from checks.eval_suites import suites_of, suites_text
from checks.signals import signal_series
from tests.checks.records import check


def suite(name: str | None, passed: dict[int, list[int]], samples: int = 1) -> list[dict[str, Any]]:
    """Evaluations by step: of each task how many of its samples passed."""
    return [
        {"adapter": "a", "version": 0, "step": step, "suite": name, "task_id": f"t{task}", "sample": at,
         "passed": at < solved}
        for step, tasks in passed.items()
        for task, solved in enumerate(tasks)
        for at in range(samples)
    ]  # fmt: skip


GATE = suite("gate", {0: [1, 0, 0, 0], 4: [2, 2, 2, 1]}, samples=2)
"""1 of 8 samples, then 7 of 8."""
EXAM = suite("exam", {0: [1, 0], 4: [1, 1]})
"""1 of 2, then both."""


def table(rows: list[dict[str, Any]], name: str = "evals") -> pl.DataFrame:
    return completed(pl.DataFrame(rows), name)


def order(rows: list[dict[str, Any]]) -> tuple[str | None, ...]:
    return suites_of(stepped(table(rows), completed(pl.DataFrame(), "versions")))["a"]


def test_of_two_suites_of_the_same_steps_the_one_with_more_samples_of_a_task_goes_first() -> None:
    assert order(GATE + EXAM) == order(EXAM + GATE) == ("gate", "exam")


def test_a_suite_that_was_tried_once_takes_no_place_and_one_that_took_over_does() -> None:
    every = {step: [1] for step in range(6)}
    assert order(suite("old", every) + suite("once", {6: [1]}, samples=8)) == ("old", "once")
    assert order(suite("old", every) + suite("new", {6: [1], 7: [1], 8: [1]})) == ("new", "old")


def test_a_suite_of_which_nothing_was_observed_is_none() -> None:
    assert order(suite("s", {0: [1]}) + [{**each, "passed": None} for each in suite("x", {1: [1], 2: [1]})]) == ("s",)


@pytest.mark.parametrize("rows", [GATE + EXAM, EXAM + GATE])
def test_the_checks_are_of_one_suite_and_name_it(rows: list[dict[str, Any]]) -> None:
    passes = check("pass-at-k", evals=rows)
    # Of 2 samples with 1 success pass@2 is 1: with three tasks solved twice that is 1 for all.
    assert passes.metrics == {"pass_at_1": 7 / 8, "pass_at_2": 1.0}
    assert passes.summary.startswith("4 held-out tasks of the newest evaluation (suite gate, not exam): ")
    gap = check("reward-eval-gap", evals=rows, steps=[{"adapter": "a", "step": 4, "reward_mean": 0.5}])
    assert gap.metrics["reward_eval_last"] == 7 / 8
    assert gap.summary.startswith("train 0.5, held-out 0.875 (suite gate, not exam)")


def test_the_curves_are_of_the_same_suite() -> None:
    steps = table([{"adapter": "a", "step": 4, "reward_mean": 0.5}], "steps")
    nothing = {name: completed(pl.DataFrame(), name) for name in ("turns", "rewards", "spans", "versions")}
    series = signal_series(steps=steps, evals=table(EXAM + GATE), **nothing)
    drawn = {part: frame["value"].to_list() for (part,), frame in series.group_by("part", maintain_order=True)}
    # One success of two samples is a pass@2 of 1, none is 0: 1 of 4 tasks at first.
    assert (drawn["reward_eval"], drawn["pass_at_k"]) == ([1 / 8, 7 / 8], [1 / 4, 1.0])


def test_one_suite_alone_is_not_named() -> None:
    samples = stepped(table(GATE), completed(pl.DataFrame(), "versions"))
    assert suites_text(samples) == ""
    assert "suite" not in check("pass-at-k", evals=GATE).summary


def line() -> pl.DataFrame:
    return table([{"adapter": "a", "version": v, "parent": v - 1 or None, "optimizer_step": v} for v in (1, 2)],
                 "versions")  # fmt: skip


def of_version(name: str, version: int, solved: int) -> list[dict[str, Any]]:
    rows = suite(name, {version: [int(task < solved) for task in range(16)]})
    return [each | {"version": version} for each in rows]


def test_tasks_of_two_suites_with_the_same_names_are_not_compared() -> None:
    scores = of_version("gate", 1, 16) + of_version("exam", 2, 0)
    assert eval_falls(table(scores), line(), "a") == ()


@pytest.mark.parametrize(("gate", "exam", "named"), [(1, 1, "exam"), (1, 16, "gate"), (16, 1, "exam")])
def test_a_fall_is_of_one_suite_and_told_once(gate: int, exam: int, named: str) -> None:
    scores = of_version("gate", 1, 16) + of_version("exam", 1, 16)
    scores += of_version("gate", 2, gate) + of_version("exam", 2, exam)
    (fall,) = eval_falls(table(scores), line(), "a")
    assert (fall.version, fall.suite, fall.suites, fall.score.tasks) == (2, named, 2, 16)
    assert (fall.score.before, fall.score.after) == (1.0, 1 / 16)


def test_what_each_evaluation_shows_is_told_by_suite() -> None:
    scores = of_version("gate", 1, 4) + of_version("exam", 1, 8)
    scores += of_version("gate", 2, 12) + of_version("exam", 2, 8)
    found = changes_by_suite(table(scores), line(), "a")
    told = [[(each.suite, each.score.before, each.score.after) for each in of] for of in found]
    assert told == [[("exam", 0.5, 0.5)], [("gate", 0.25, 0.75)]]
