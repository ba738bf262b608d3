"""Gradient norm: spikes, drift, and norms that are not numbers."""

import json
import math

import numpy as np
import pytest

from checks.report import as_json
from checks.suite import run, select_checks
from tests.checks.records import check
from tests.checks.simulated_runs import Noise, autocorrelated


def steps(norms: list[float], adapter: str | None = None) -> list[dict[str, object]]:
    return [{"step": at, "adapter": adapter, "grad_norm": norm} for at, norm in enumerate(norms, start=1)]


def healthy(length: int, seed: int = 1) -> list[float]:
    noise = autocorrelated(np.random.default_rng(seed), length, Noise(0.5, 6))
    return [float(norm) for norm in np.exp(0.18 * noise)]


def test_a_spike_is_told_by_its_step_and_its_multiple_of_the_median_before() -> None:
    norms = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.1, 0.9, 1.0, 12.0, 1.0]
    found = check("grad-norm", steps=steps(norms, "a"))
    assert (found.status, found.metrics["grad_norm_max"]) == ("warn", 12.0)
    assert [(each.step, each.adapter) for each in found.evidence] == [(11, "a")]
    assert found.value == pytest.approx(12.0, rel=1e-12), "the median of the ten before is 1"


def test_a_hundredfold_spike_fails() -> None:
    assert check("grad-norm", steps=steps([*healthy(40), 500.0])).status == "fail"


def test_healthy_heavy_tailed_norms_are_quiet() -> None:
    quiet = [check("grad-norm", steps=steps(healthy(500, seed))).status == "ok" for seed in range(20)]
    assert sum(quiet) >= 19


def test_a_slow_rise_is_a_drift() -> None:
    norms = [norm * math.exp(at / 200) for at, norm in enumerate(healthy(400))]
    found = check("grad-norm", steps=steps(norms))
    assert found.status == "warn"
    (drift,) = found.evidence
    assert "rose slowly" in (drift.text or "")
    assert drift.value == pytest.approx(math.exp(1.9), rel=0.3), "19/20 of a rise by e squared"


def test_a_norm_that_is_not_a_number_fails_and_is_null_in_json() -> None:
    import polars as pl

    frame = pl.DataFrame({"step": [1, 2, 3], "grad_norm": [1.0, float("nan"), float("inf")]})
    report = run({"steps": frame}, checks=select_checks(["grad-norm"]))
    finding = json.loads(as_json(report))["findings"][0]
    assert finding["status"] == "fail"
    assert [(e["step"], e["kind"], e["value"]) for e in finding["evidence"]] == [
        (2, "not_finite", None),
        (3, "not_finite", None),
    ]
    assert json.loads(as_json(report))["metrics"] == {"grad_norm_max": 1.0}


def test_adapters_are_not_compared_with_each_other() -> None:
    found = check("grad-norm", steps=[*steps([1.0] * 30, "small"), *steps([50.0] * 30, "large")])
    assert (found.status, found.evidence) == ("ok", ())


def test_norms_of_zero_are_no_spikes_and_break_nothing() -> None:
    assert check("grad-norm", steps=steps([0.0] * 20 + [1.0] * 20)).status == "ok"


def test_steps_may_come_in_any_order() -> None:
    logged = steps([*healthy(40), 30.0, *healthy(5, 2)])
    found = check("grad-norm", steps=[*reversed(logged)])
    assert [each.step for each in found.evidence] == [41]


@pytest.mark.parametrize(
    ("norms", "losses", "status"),
    [
        ([1.0, math.inf, 1.0], [0.1, -0.2, 0.1], "warn"),
        ([1.0, 1.0, math.inf], [0.1, -0.2, 0.1], "fail"),
        ([1.0, math.inf, 1.0], [0.1, math.inf, 0.1], "fail"),
        ([1.0, math.inf, 1.0], [0.1, None, 0.1], "fail"),
        ([1.0, math.nan, 1.0], [0.1, -0.2, 0.1], "fail"),
    ],
)
def test_a_step_that_loss_scaling_skipped_warns_and_other_infinities_fail(
    norms: list[float], losses: list[float | None], status: str
) -> None:
    logged = [{**step, "loss": loss} for step, loss in zip(steps(norms), losses, strict=True)]
    found = check("grad-norm", steps=logged)
    assert found.status == status
    assert [each.kind for each in found.evidence] == ["not_finite"]


def test_norms_too_few_for_a_multiple_are_not_ok_but_no_data() -> None:
    # Sixteen steps of a healthy run; in eight of them every group had equal rewards.
    found = check("grad-norm", steps=steps([287.0, 0.3, 0.1, 10.4, *[0.0] * 8, 153.0, 1.8, 0.001, 0.01]))
    assert (found.status, found.value, found.metrics) == ("no_data", None, {"grad_norm_max": 287.0})
    assert found.summary == "16 steps, 8 of them with a finite norm above 0; a spike is told by 10 such steps before it"
    eleven = check("grad-norm", steps=steps([1.0, 0.0] * 10 + [3.0]))
    assert (eleven.status, eleven.value) == ("ok", pytest.approx(3.0))
