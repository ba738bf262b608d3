"""The gate's comparison, against SciPy's own paired test and simulated candidates."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from trainer.gate_statistics import compare, fallen, mean_scores, pass_rates, tasks_needed


def scores(values: list[float]) -> dict[str, float]:
    return {f"task-{index}": value for index, value in enumerate(values)}


def test_the_bound_is_that_of_the_paired_t_test() -> None:
    candidate, live = [0.5, 0.75, 1.0, 0.25, 0.5], [0.5, 0.5, 0.75, 0.5, 0.25]
    found = compare(scores(candidate), scores(live))
    test = stats.ttest_rel(candidate, live, alternative="greater")
    assert found.lower_bound == pytest.approx(test.confidence_interval(0.95).low, rel=1e-12)
    assert (found.tasks, found.mean_difference) == (5, pytest.approx(0.1))


def test_by_hand_with_two_tasks() -> None:
    # Differences 0.1 and 0.3: mean 0.2, standard error 0.1, t(0.95, 1) = tan(0.45 pi) = 6.3138.
    found = compare({"a": 0.6, "b": 0.8}, {"a": 0.5, "b": 0.5})
    assert found.lower_bound == pytest.approx(0.2 - 0.1 * math.tan(0.45 * math.pi), rel=1e-9)
    assert found.verdict == "inconclusive"


def test_equal_scores_are_not_worse_only_on_enough_tasks() -> None:
    """0.98^148 = 0.0503 and 0.98^149 = 0.0493: a loss of 2 % of the tasks goes unseen more or less often than 5 %."""
    few, enough = scores([1.0] * 148), scores([1.0, 0.0] * 74 + [1.0])
    assert compare(few, few).verdict == "inconclusive"
    found = compare(enough, enough)
    assert found.verdict == "not_worse"
    assert found.lower_bound == pytest.approx(-(1 - 0.05 ** (1 / 149)), rel=1e-9)
    tiny = scores([0.0, 1.0, 0.5])
    assert compare(tiny, tiny).lower_bound == pytest.approx(-(1 - 0.05 ** (1 / 3)), rel=1e-9)


def test_a_single_loss_has_the_exact_binomial_bound() -> None:
    live = scores([1.0] * 100)
    candidate = {**live, "task-7": 0.0}
    found = compare(candidate, live)
    # The share p for which one loss or none among 100 has a chance of 5 %.
    assert found.lower_bound is not None
    p = -found.lower_bound
    assert 0.99 > p > 0.04
    assert (1 - p) ** 100 + 100 * p * (1 - p) ** 99 == pytest.approx(0.05, rel=1e-9)


def test_one_gain_among_equal_scores_claims_no_certainty() -> None:
    live = scores([0.0] * 60)
    found = compare({**live, "task-3": 1.0}, live)
    assert found.verdict == "inconclusive"
    assert found.lower_bound == pytest.approx(1 / 60 - (1 + 1 / 60) * (1 - 0.05 ** (1 / 60)), rel=1e-9)


def test_two_tasks_that_lose_alike_do_not_prove_a_loss() -> None:
    assert compare({"a": 0.9, "b": 0.9}, {"a": 1.0, "b": 1.0}, margin=0.05).verdict == "inconclusive"


def test_a_loss_within_the_margin_passes_and_one_beyond_it_does_not() -> None:
    live = scores([0.5] * 400)
    small = scores([0.49, 0.48] * 200)
    large = scores([0.46, 0.45] * 200)
    assert compare(small, live).verdict == "not_worse"
    assert compare(large, live).verdict == "worse"


def test_few_noisy_tasks_are_inconclusive_and_say_what_they_could_show() -> None:
    found = compare(scores([1, 0, 1, 0]), scores([0, 1, 0, 1]))
    assert found.verdict == "inconclusive"
    assert found.minimum_detectable is not None
    assert found.minimum_detectable > 0.02


def test_a_plain_loss_is_worse_even_if_small_ones_could_not_be_seen() -> None:
    found = compare(scores([0.1, 0.0, 0.2, 0.1, 0.1]), scores([0.9, 1.0, 0.9, 0.8, 0.9]))
    assert found.minimum_detectable is not None
    assert found.minimum_detectable > 0.02
    assert found.verdict == "worse"


def test_tasks_that_only_one_was_tried_on_enter_nothing() -> None:
    assert compare({"a": 1.0, "b": 1.0, "x": 0.0}, {"a": 1.0, "b": 1.0, "y": 1.0}).tasks == 2
    assert compare({"a": 1.0}, {"b": 1.0})[:4] == ("inconclusive", 0, None, None)


def test_a_score_that_is_not_a_number_stops_the_comparison() -> None:
    with pytest.raises(ValueError, match="task 'a': a score that is not finite"):
        compare({"a": float("nan")}, {"a": 1.0})


Draw = Callable[[np.random.Generator, int], tuple[Any, Any]]


def smooth(random: np.random.Generator, tasks: int) -> tuple[Any, Any]:
    live = random.uniform(0, 1, tasks)
    return live - 0.02 + random.normal(0, 0.05, tasks), live


def lost_outright(random: np.random.Generator, tasks: int) -> tuple[Any, Any]:
    return 1.0 - (random.random(tasks) < 0.02), np.ones(tasks)


def few_change(random: np.random.Generator, tasks: int) -> tuple[Any, Any]:
    """One task in a hundred is gained, three are lost."""
    draw = random.random(tasks)
    return np.where(draw < 0.01, 1.0, np.where(draw < 0.04, -1.0, 0.0)), np.zeros(tasks)


def four_samples(random: np.random.Generator, tasks: int) -> tuple[Any, Any]:
    rate = random.uniform(0.02, 1, tasks)
    return random.binomial(4, rate - 0.02) / 4, random.binomial(4, rate) / 4


def saturated(random: np.random.Generator, tasks: int) -> tuple[Any, Any]:
    return random.binomial(4, 0.98, tasks) / 4, np.ones(tasks)


def one_in_twenty_collapses(random: np.random.Generator, tasks: int) -> tuple[Any, Any]:
    live = np.full(tasks, 0.8)
    return live + random.normal(0, 0.01, tasks) - np.where(random.random(tasks) < 0.05, 0.4, 0.0), live


DRAWS: tuple[Draw, ...] = (smooth, lost_outright, few_change, four_samples, saturated, one_in_twenty_collapses)


def passes(draw: Draw, tasks: int, times: int) -> int:
    random = np.random.default_rng(tasks)
    drawn = (draw(random, tasks) for _ in range(times))
    return sum(compare(scores(a.tolist()), scores(b.tolist())).verdict == "not_worse" for a, b in drawn)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_candidate_worse_by_the_margin_passes_at_most_one_time_in_twenty(draw: Draw) -> None:
    # Binomial(400, 0.05): mean 20, standard deviation 4.4.
    assert passes(draw, 150, 400) <= 20 + 3 * 4.4


@pytest.mark.long
@pytest.mark.parametrize("tasks", [60, 150, 400, 1000])
@pytest.mark.parametrize("draw", DRAWS)
def test_so_it_is_for_any_number_of_tasks(draw: Draw, tasks: int) -> None:
    """At most 8 %: a compound of few losses of several sizes has no exact bound."""
    # Binomial(2000, 0.08): standard deviation 12.
    assert passes(draw, tasks, 2000) <= 160 + 3 * 12


def test_as_many_tasks_as_are_needed_show_a_difference_four_times_in_five() -> None:
    """An equal candidate with differences of standard deviation 0.1 passes at a margin of 0.02 with the power said."""
    tasks = tasks_needed(0.1, 0.02)
    # (1.645 + 0.842)^2 * (0.1 / 0.02)^2 = 154.6, and a little more for Student's quantiles.
    assert 155 <= tasks <= 158
    random = np.random.default_rng(3)
    live = scores([0.5] * tasks)
    passed = sum(
        compare(scores((0.5 + random.normal(0, 0.1, tasks)).tolist()), live).verdict == "not_worse" for _ in range(400)
    )
    # Binomial(400, 0.8): standard deviation 8.
    assert abs(passed - 320) <= 3 * 8


def test_a_fall_on_one_task_has_fishers_exact_chance() -> None:
    assert fallen((0, 8), (8, 8)) == pytest.approx(1 / math.comb(16, 8), rel=1e-12)
    assert fallen((8, 8), (8, 8)) == 1.0
    table = stats.fisher_exact([[3, 5], [7, 1]], alternative="less")
    assert fallen((3, 8), (7, 8)) == pytest.approx(table.pvalue, rel=1e-12)


def test_means_and_pass_rates_leave_out_what_was_not_tried() -> None:
    assert mean_scores({"a": [1.0, 0.0], "b": []}) == {"a": 0.5}
    # 1 - C(2, 2) / C(4, 2) = 5/6; one sample says nothing of two.
    assert pass_rates({"a": [True, True, False, False], "b": [True]}, 2) == {"a": pytest.approx(5 / 6)}
