"""The comparison at the end: means and intervals against values worked by hand."""

import math

import pytest

from console.demo.exam import compared, estimate

T_3 = 3.182446305
"""Student's t at 97.5 % with 3 degrees of freedom, from a printed table."""


def test_a_mean_has_the_interval_of_students_t() -> None:
    found = estimate([0.0, 1.0, 1.0, 1.0])
    # Mean 3/4; squares (9 + 1 + 1 + 1)/16 = 3/4 over 3 is a variance of 1/4, so the error is 1/4.
    assert found.mean == 0.75
    assert (found.low, found.high) == (pytest.approx(0.75 - T_3 / 4), pytest.approx(0.75 + T_3 / 4))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0, 1.0]])
def test_what_does_not_vary_has_no_interval(values: list[float]) -> None:
    found = estimate(values)
    assert (found.low, found.high) == (None, None)
    assert math.isnan(found.mean) if not values else found.mean == 1.0


def test_the_gain_is_paired_by_task() -> None:
    exam = compared(2, [(0.0, 1.0), (0.0, 1.0), (1.0, 1.0), (0.0, 1.0)], ())
    assert (exam.before.mean, exam.after.mean) == (0.25, 1.0)
    # Gains 1, 1, 0, 1: as above.
    assert exam.gain.low == pytest.approx(0.75 - T_3 / 4)
    assert not exam.risen


def test_a_gain_counts_only_when_its_whole_interval_is_above_nothing() -> None:
    assert compared(1, [(0.0, 1.0)] * 9 + [(1.0, 1.0)], ()).risen
    assert not compared(1, [(0.0, 0.0)] * 9 + [(0.0, 1.0)], ()).risen
    assert not compared(1, [(1.0, 0.0)] * 9 + [(0.0, 0.0)], ()).risen
    assert not compared(1, [(0.0, 1.0)], ()).risen


def test_a_gain_is_shown_with_its_sign() -> None:
    exam = compared(1, [(0.0, 1.0), (0.0, 1.0), (1.0, 1.0), (0.0, 1.0)], ())
    # 0.75 ± 3.182446 / 4
    assert exam.gain.text("+") == "+0.75 (-0.05 to +1.55)"
    assert exam.after.text() == "1.00 (no interval)"
