"""The gate's comparison, against SciPy's own paired test and simulated candidates."""

import math

import numpy as np
import pytest
from scipy import stats

from trainer.gate_statistics import compare, mean_scores, pass_rates


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


def test_equal_scores_are_not_worse() -> None:
    same = scores([0.0, 1.0, 0.5])
    assert compare(same, same)[:4] == ("not_worse", 3, 0.0, 0.0)


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
    found = compare(scores([0.1, 0.0, 0.2, 0.1]), scores([0.9, 1.0, 0.9, 0.8]))
    assert found.minimum_detectable is not None
    assert found.minimum_detectable > 0.02
    assert found.verdict == "worse"


def test_tasks_that_only_one_was_tried_on_enter_nothing() -> None:
    assert compare({"a": 1.0, "b": 1.0, "x": 0.0}, {"a": 1.0, "b": 1.0, "y": 1.0}).tasks == 2
    assert compare({"a": 1.0}, {"b": 1.0})[:4] == ("inconclusive", 0, None, None)


def test_a_score_that_is_not_a_number_stops_the_comparison() -> None:
    with pytest.raises(ValueError, match="task 'a': a score that is not finite"):
        compare({"a": float("nan")}, {"a": 1.0})


def test_a_candidate_at_the_margin_passes_one_time_in_twenty() -> None:
    random = np.random.default_rng(1)
    passed = 0
    for _ in range(2000):
        live = random.uniform(0, 1, 60)
        candidate = live - 0.02 + random.normal(0, 0.05, 60)
        passed += compare(scores(candidate.tolist()), scores(live.tolist())).verdict == "not_worse"
    # Binomial(2000, 0.05): standard deviation 9.7.
    assert abs(passed - 100) < 40


def test_means_and_pass_rates_leave_out_what_was_not_tried() -> None:
    assert mean_scores({"a": [1.0, 0.0], "b": []}) == {"a": 0.5}
    # 1 - C(2, 2) / C(4, 2) = 5/6; one sample says nothing of two.
    assert pass_rates({"a": [True, True, False, False], "b": [True]}, 2) == {"a": pytest.approx(5 / 6)}
