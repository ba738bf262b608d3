"""Entropy: means, the estimate from sampled tokens, collapse and surge, and impossible log-probabilities."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.finding import Finding
from checks.suite import run, select_checks


def finding(rows: list[dict[str, Any]], limits: dict[str, float] | None = None, **tables: pl.DataFrame) -> Finding:
    names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
    frames = {"turns": pl.DataFrame(rows, schema=names), **tables}
    return run(frames, checks=select_checks(["entropy"]), thresholds={"entropy": limits or {}}).findings[0]


def turn(mu: list[float | None], **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"session_id": "s", "turn": 1, "prompt_ids": [1], "completion_ids": [7] * len(mu)}
    return row | {"sampled_logprobs": mu} | more


def steps(entropy: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"step": list(range(1, len(entropy) + 1)), "entropy": entropy})


def test_the_estimate_is_the_mean_over_tokens_not_over_turns() -> None:
    found = finding([turn([-1.0]), turn([-2.0, -3.0, 0.0], turn=2)])
    assert found.metrics == {"entropy_sampled_estimate": 6 / 4}


def test_entropies_of_the_trainer_go_first() -> None:
    found = finding([turn([-1.0, -1.0], entropies=[0.5, 0.25], trainer_logprobs=[-1.0, -1.0])])
    assert found.metrics == {"entropy_mean": 0.375, "entropy_sampled_estimate": 1.0}
    assert found.value == 0.375


def test_masked_null_and_greedy_tokens_do_not_count() -> None:
    found = finding(
        [turn([-1.0, -9.0, None], loss_mask=[1, 0, 1]), turn([-5.0], turn=2, temperature=0.0), turn([-3.0], turn=3)]
    )
    assert found.metrics == {"entropy_sampled_estimate": 2.0}


def test_random_logs_equal_fsum() -> None:
    rng = np.random.default_rng(0)
    rows = [turn((-rng.exponential(1, int(rng.integers(0, 40)))).tolist(), turn=n) for n in range(50)]
    values = [value for row in rows for value in row["sampled_logprobs"]]
    expected = -math.fsum(values) / len(values)
    assert finding(rows).metrics["entropy_sampled_estimate"] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("column", ["sampled_logprobs", "trainer_logprobs", "reference_logprobs"])
def test_a_log_probability_above_zero_fails_wherever_it_is(column: str) -> None:
    row = turn([-1.0] * 4, trainer_logprobs=[-1.0] * 4) | {column: [-1.0, 0.3, -1.0, 0.1]}
    found = finding([row])
    assert found.status == "fail"
    assert [(each.token_index, each.kind, each.value, each.detail["tokens"]) for each in found.evidence] == [
        (1, "logprob_above_zero", 0.3, 2)
    ]


def test_rounding_just_above_zero_and_placeholders_under_the_mask_are_no_fault() -> None:
    assert finding([turn([-1.0, 4e-7, 1.0], loss_mask=[1, 1, 0])]).status == "ok"


def test_a_null_does_not_hide_a_value_above_zero() -> None:
    assert [each.token_index for each in finding([turn([-1.0, None, 0.5])]).evidence] == [2]


def test_the_level_falls_below_its_thresholds() -> None:
    assert [finding([turn([-x] * 4)]).status for x in (0.5, 0.009, 0.0009)] == ["ok", "warn", "fail"]


def test_a_collapse_over_the_run_is_dated() -> None:
    found = finding([turn([-1.0])], steps=steps([1.0] * 8 + [0.5, 0.2] + [0.1] * 6))
    (fault,) = found.evidence
    assert (found.status, fault.step, fault.status) == ("warn", 10, "warn")
    assert fault.detail["ratio"] == pytest.approx(0.1)
    assert found.metrics["entropy_mean"] == pytest.approx((8 + 0.7 + 0.6) / 16)


def test_what_moved_is_told_with_the_steps_of_both_medians_and_the_value_of_its_own() -> None:
    # Sixteen steps: the first five have a median of 0.0125, the last five of 0.0362; 0.168 is 13 times the former.
    logged = [0.0252, 0.0056, 0.0266, 0.0125, 0.008, 0.168, 0.0352, 0.0281, 0.0019, 0.0024, 0.0016,
              0.0024, 0.0704, 0.0046, 0.0362, 0.051]  # fmt: skip
    found = finding([], steps=steps(logged))
    (fault,) = found.evidence
    assert (fault.step, fault.value, fault.status) == (6, 0.168, "warn")
    assert fault.text == (
        "entropy surged from 0.0125 nats in the median of steps 1 to 5 to 0.0362 in that of 12 to 16; step 6, 0.168, is"
        " the first beyond 2.5 times"
    )


def test_a_mean_says_over_how_much_it_is() -> None:
    assert finding([], steps=steps([0.5, 0.25])).summary == "mean entropy 0.375 nats over 2 steps"
    row = turn([-1.0, -1.0], entropies=[0.5, 0.25])
    assert finding([row], steps=steps([9.0])).summary.startswith("mean entropy 0.375 nats over 2 tokens; ")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), 1e61])
def test_what_a_trainer_logged_as_no_finite_number_fails_and_counts_nowhere_else(bad: float) -> None:
    values = [2.0, bad, bad, bad, 2.0] + [2.0, bad] * 10
    found = finding([], steps=steps(values))
    assert found.status == "fail"
    assert [(each.kind, each.step) for each in found.evidence] == [
        ("not_finite", at) for at, value in enumerate(values, 1) if value != 2.0
    ]
    assert found.metrics == {"entropy_mean": 2.0}
    assert found.summary == "mean entropy 2 nats over 12 steps; 13 steps whose entropy is not finite"
    collapsed = finding([], steps=steps([*values, *[0.1] * 10, *[bad] * 3])).evidence
    assert [each.step for each in collapsed if each.kind is None] == [len(values) + 1]


def test_a_log_of_no_finite_entropy_has_no_number_and_fails() -> None:
    found = finding([], steps=steps([float("nan")] * 3))
    assert (found.status, found.value, found.metrics) == ("fail", None, {})


def test_a_collapse_to_numbers_too_small_to_multiply_is_dated() -> None:
    # A quarter of the smallest float is 0, which nothing is below; the first step beyond is 11.
    found = finding([], steps=steps([5e-324] * 10 + [0.0] * 10))
    assert [each.step for each in found.evidence] == [11]


def test_a_surge_over_the_run_is_dated() -> None:
    (fault,) = finding([turn([-1.0])], steps=steps([0.5] * 8 + [1.0, 1.5] + [3.0] * 6)).evidence
    assert (fault.step, fault.status) == (10, "fail")


def test_a_collapse_that_has_only_just_begun_warns() -> None:
    (fault,) = finding([turn([-1.0])], steps=steps([1.0] * 60 + [0.5] + [0.01] * 4)).evidence
    assert (fault.step, fault.status, fault.value) == (62, "warn", 0.01)
    (fault,) = finding([turn([-1.0])], steps=steps([1.0] * 60 + [0.5] + [6.0] * 4)).evidence
    assert (fault.step, fault.status, fault.value) == (62, "warn", 6.0)
    assert finding([turn([-1.0])], steps=steps([1.0] * 60 + [0.5, 0.5, 0.5, 0.01, 0.01])).status == "ok"


def test_a_slow_decline_and_a_short_run_are_quiet() -> None:
    assert finding([turn([-1.0])], steps=steps([1.0 - 0.03 * n for n in range(20)])).status == "ok"
    assert finding([turn([-1.0])], steps=steps([1.0] * 4 + [0.02] * 5)).status == "ok"


def test_curves_come_from_tokens_where_no_step_logs_entropy() -> None:
    rows = [turn([-(12.0 - n)], turn=n, trainer_step=n, trainer_logprobs=[-1.0]) for n in range(12)]
    (curve,) = finding(rows).series
    assert (curve.x[:2], curve.y[:2]) == ((0.0, 1.0), (12.0, 11.0))


def test_lists_of_another_length_are_not_judged() -> None:
    found = finding([turn([-1.0, -1.0]) | {"completion_ids": [7]}])
    assert (found.status, found.metrics) == ("no_data", {})
    assert "another length" in found.summary
