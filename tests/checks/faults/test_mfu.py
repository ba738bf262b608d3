"""Model FLOPs over peak."""

import pytest

from tests.checks.records import check


def test_it_is_flops_over_time_and_peak_weighted_by_time() -> None:
    steps = [
        {"step": 1, "duration_s": 10, "model_flops": 4e15, "peak_flops": 1e15},
        {"step": 2, "duration_s": 30, "model_flops": 6e15, "peak_flops": 1e15},
    ]
    found = check("mfu", steps=steps)
    assert found.metrics["mfu"] == pytest.approx(10 / 40, rel=1e-15), "0.4 for 10 s and 0.2 for 30 s"
    assert found.status == "ok"


def test_the_logged_figure_serves_where_flops_are_missing() -> None:
    assert check("mfu", steps=[{"step": 1, "mfu": 0.4}, {"step": 2, "mfu": 0.2}]).value == pytest.approx(0.3)


def test_counted_flops_win_over_the_logged_figure() -> None:
    one = {"step": 1, "duration_s": 1, "model_flops": 0.5, "peak_flops": 1, "mfu": 0.9}
    assert check("mfu", steps=[one]).value == 0.5


def test_above_one_is_impossible_and_outside_of_the_mean() -> None:
    found = check("mfu", steps=[{"step": 1, "mfu": 0.5}, {"step": 2, "adapter": "a", "mfu": 1.2}])
    assert (found.status, found.value) == ("fail", 0.5)
    assert [(each.step, each.adapter, each.kind) for each in found.evidence] == [(2, "a", "impossible")]


def test_where_every_step_is_impossible_the_number_is_still_told() -> None:
    steps = [{"step": 1, "duration_s": 10, "model_flops": 2e16, "peak_flops": 1e15}]
    found = check("mfu", steps=steps)
    assert (found.status, found.value, found.metrics) == ("fail", 2.0, {"mfu": 2.0})
    assert [each.value for each in found.evidence] == [2.0]


def test_a_step_that_took_no_time_is_impossible() -> None:
    steps = [{"step": 1, "duration_s": 0, "model_flops": 1.0, "peak_flops": 1.0}]
    found = check("mfu", steps=steps)
    assert (found.status, found.value, found.metrics) == ("fail", None, {})


def test_exactly_one_is_possible_and_low_warns() -> None:
    assert check("mfu", steps=[{"step": 1, "mfu": 1.0}]).status == "ok"
    assert check("mfu", steps=[{"step": 1, "mfu": 0.15}]).status == "ok"
    assert check("mfu", steps=[{"step": 1, "mfu": 0.149}]).status == "warn"


def test_nan_is_not_observed() -> None:
    assert check("mfu", steps=[{"step": 1, "mfu": float("nan")}]).status == "no_data"
