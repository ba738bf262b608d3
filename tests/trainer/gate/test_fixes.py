"""Earlier fixes: found in past evaluations, and a fall among them told from chance."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from collector.records import Eval
from trainer.gate.fixes import earlier_fixes, fixes_kept
from trainer.gate.report import Criterion, Trial
from trainer.gate_config import GateConfig

CONFIG = GateConfig()


def evals(*rows: tuple[int, str, list[int]], adapter: str | None = "bot", suite: str = "sums") -> pl.DataFrame:
    """(version, task, passed of each sample)."""
    return pl.DataFrame(
        [
            {"adapter": adapter, "version": version, "suite": suite, "task_id": task, "passed": bool(passed)}
            for version, task, samples in rows
            for passed in samples
        ]
    )


def test_a_task_that_failed_and_then_passed_under_a_live_version_is_a_fix() -> None:
    past = evals(
        (0, "fixed", [0, 0]), (1, "fixed", [1, 1]),
        (0, "half", [0, 0]), (1, "half", [1, 0]),
        (0, "always", [1, 1]), (1, "always", [1, 1]),
        (0, "by a rejected one", [0, 0]), (2, "by a rejected one", [1, 1]),
        (1, "lost", [1, 1]), (3, "lost", [0, 0]),
        (1, "regained", [0, 0]), (3, "regained", [1, 1, 0]),
    )  # fmt: skip
    assert earlier_fixes(past, adapter="bot", suite="sums", once_live={0, 1, 3}) == ["fixed", "regained"]


def test_samples_of_several_cycles_are_one_and_those_of_others_are_none() -> None:
    past = pl.concat(
        [
            evals((0, "a", [0, 0]), (0, "a", [1, 0]), (1, "a", [1, 1])),
            evals((0, "b", [0]), adapter=None),
            evals((1, "b", [1])),
            evals((0, "c", [0]), (1, "c", [1]), adapter="other"),
            evals((0, "d", [0]), (1, "d", [1]), suite="other"),
        ]
    )
    assert earlier_fixes(past, adapter="bot", suite="sums", once_live={0, 1}) == ["b"]
    unobserved = past.with_columns(passed=pl.lit(None, pl.Boolean))
    assert earlier_fixes(unobserved, adapter="bot", suite="sums", once_live={0, 1}) == []


def trial(version: int, passed: dict[str, tuple[int, int]]) -> Trial:
    """(passed, samples) of each task."""
    return Trial(
        version,
        tuple(
            Eval(adapter="bot", version=version, suite="s", task_id=task, sample=n, score=float(n < k), passed=n < k)
            for task, (k, samples) in passed.items()
            for n in range(samples)
        ),
    )


def kept(
    candidate: dict[str, tuple[int, int]], *others: dict[str, tuple[int, int]], deterministic: bool = False
) -> Criterion:
    trials = [trial(index + 1, other) for index, other in enumerate(others)]
    tasks = [f"s/{task}" for task in others[0]]
    return fixes_kept(trial(9, candidate), trials, tasks, CONFIG, deterministic=deterministic)


def eight(count: int, passed: int = 8) -> dict[str, tuple[int, int]]:
    return {f"t{index}": (passed, 8) for index in range(count)}


def test_one_fix_that_fell_back_among_twenty_is_refused_and_named() -> None:
    found = kept({**eight(20), "t7": (1, 8)}, eight(20), eight(20))
    assert found.status == "refuse"
    assert "s/t7 (1/8, version 1 8/8)" in found.text


def test_a_sample_lost_here_and_there_is_no_fall() -> None:
    found = kept({**eight(20), "t7": (6, 8), "t3": (7, 8)}, eight(20))
    assert (found.status, found.text) == ("pass", "none of 20 fell back")


def test_many_small_falls_are_found_together() -> None:
    """5 of 8 against 8 of 8 is p = 0.1 for one, and not to be told among 20; for all together it is plain."""
    found = kept(eight(20, 5), eight(20))
    assert found.status == "refuse"
    assert "worse on the fixes together: -0.375 against version 1" in found.text


def test_a_fall_against_the_pinned_best_counts_and_what_live_lost_itself_does_not() -> None:
    assert kept({"t0": (0, 8)}, {"t0": (0, 8)}, {"t0": (8, 8)}).status == "refuse"
    found = kept({"t0": (0, 8), "t1": (8, 8)}, {"t0": (0, 8), "t1": (8, 8)})
    assert found.status == "pass"
    assert "1 that version 1 fails now" in found.text


def test_a_fix_that_was_not_tried_is_no_data_and_no_fix_is_nothing_to_lose() -> None:
    assert kept({"t0": (8, 8)}, {"t0": (8, 8), "t1": (8, 8)}).status == "no_data"
    assert fixes_kept(trial(9, {}), [trial(1, {})], [], CONFIG, deterministic=False).status == "pass"


def test_too_few_samples_to_show_any_fall_is_inconclusive() -> None:
    # 2 of 2 against 0 of 2 has p = 1 / C(4, 2) = 1/6.
    assert math.comb(4, 2) == 6
    two = {"t0": (2, 2)}
    assert kept({"t0": (0, 2)}, two).status == "inconclusive"
    assert "2 samples of each could not show a fall among 1 comparisons" in kept(two, two).text


def test_replies_without_chance_need_one_sample() -> None:
    one = {"t0": (1, 1), "t1": (1, 1)}
    assert kept({"t0": (1, 1), "t1": (0, 1)}, one, deterministic=True).status == "refuse"
    assert kept(one, one, deterministic=True).status == "pass"


@dataclass
class Draws:
    """Candidates that kept every fix: the same chance on each task as live."""

    random: np.random.Generator

    def sampled(self, rates: np.ndarray) -> dict[str, tuple[int, int]]:
        return {f"t{index}": (int(k), 8) for index, k in enumerate(self.random.binomial(8, rates))}


@pytest.mark.parametrize("spread", [(0.9, 1.0), (0.3, 1.0)])
def test_a_candidate_that_kept_them_all_is_seldom_refused(spread: tuple[float, float]) -> None:
    draws = Draws(np.random.default_rng(5))
    refused = 0
    for _ in range(200):
        rates = draws.random.uniform(*spread, 20)
        live = draws.sampled(rates)
        refused += kept(draws.sampled(rates), live).status == "refuse"
    # 5 % by Holm and 5 % by the comparison of all together: at most 20, and 3 standard deviations of 4.2.
    assert refused <= 20 + 13
