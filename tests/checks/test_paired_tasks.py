"""Two evaluations over the same tasks: the paired mean, its interval, and how sure so few tasks are."""

import pytest
from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from checks.paired_tasks import normal, paired, student


def test_the_mean_of_paired_differences_with_students_interval() -> None:
    # Differences: six of -1 and two of 0: mean -3/4, squares 6/16 + 18/16 = 1.5, over 7 and 8: error sqrt(1.5/56).
    found = paired(dict.fromkeys("abcdefgh", 1.0), dict.fromkeys("abcdef", 0.0) | dict.fromkeys("gh", 1.0))
    assert found is not None
    assert (found.tasks, found.before, found.after, found.by) == (8, 1.0, 0.25, -0.75)
    error = (1.5 / 56) ** 0.5
    assert found.low == pytest.approx(-0.75 - 2.3646 * error, abs=1e-3)
    assert found.high == pytest.approx(-0.75 + 2.3646 * error, abs=1e-3)
    # 4.58 errors of 8 tasks are as rare as 3.0 of many: the chance to be so far out is 0.0013 on one side.
    assert found.errors == pytest.approx(stats.norm.isf(stats.t.sf(0.75 / error, 7)), abs=0.01)


def test_only_tasks_that_both_have_count() -> None:
    found = paired({"a": 1.0, "b": 0.5, "only before": 0.0}, {"b": 0.0, "a": 0.0, "only after": 1.0})
    assert found is not None
    assert (found.tasks, found.before, found.after) == (2, 0.75, 0.0)


def test_where_every_task_differs_by_as_much_there_is_no_error() -> None:
    found = paired({"a": 1.0, "b": 0.5, "c": 0.75}, {"a": 0.5, "b": 0.0, "c": 0.25})
    assert found is not None
    assert (found.by, found.low, found.high, found.errors) == (-0.5, None, None, None)


@pytest.mark.parametrize("tasks", [0, 1])
def test_fewer_than_two_tasks_tell_nothing(tasks: int) -> None:
    scores = dict.fromkeys(range(tasks), 1.0)
    assert paired(scores, scores) is None


@pytest.mark.parametrize("freedom", [7, 11, 23, 47, 500])
@pytest.mark.parametrize("t", [1.0, 2.5, 4.0, 6.0, 9.0])
def test_standard_errors_of_few_tasks_are_restated_as_of_many(t: float, freedom: int) -> None:
    expected = float(stats.norm.isf(stats.t.sf(t, freedom)))
    assert normal(t, freedom) == pytest.approx(expected, rel=0.01)
    assert student(normal(t, freedom), freedom) == pytest.approx(t)
