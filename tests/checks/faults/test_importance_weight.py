"""Importance weights: the status is the worst number's, and the cause is told apart."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.finding import Finding
from checks.measures.weight_causes import raw_tokens
from checks.readers.open_log import open_log
from checks.report import as_json
from checks.suite import run, select_checks

IW = select_checks(["importance-weight"])


def finding(rows: list[dict[str, Any]], limits: dict[str, float] | None = None, **tables: pl.DataFrame) -> Finding:
    names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
    frames = {"turns": pl.DataFrame(rows, schema=names), **tables}
    return run(frames, checks=IW, thresholds={"importance-weight": limits or {}}).findings[0]


def turn(mu: list[float], old: list[float], **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"session_id": "s", "turn": 1, "prompt_ids": [1], "completion_ids": [7] * len(mu)}
    return row | {"sampled_logprobs": mu, "trainer_logprobs": old} | more


def at_lag(lag: int) -> dict[str, Any]:
    return {"trainer_version": 9, "weight_versions": [{"version": str(9 - lag), "start": 0, "end": 10_000}]}


def sampled(count: int, temperature: float, *, seed: int, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """log-probabilities of tokens drawn at a temperature: undivided and divided."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2.5, (count, width))
    divided = logits / temperature
    raw = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    scaled = divided - np.log(np.exp(divided).sum(1, keepdims=True))
    token = (np.exp(scaled).cumsum(1) > rng.random((count, 1))).argmax(1)
    row = np.arange(count)
    return raw[row, token], scaled[row, token]


def test_numbers_of_three_tokens_by_hand() -> None:
    found = finding([turn([-1.0, -2.0, math.log(0.5)], [-1.0, -1.0, math.log(0.5) - 3])])
    w = [1.0, math.e, math.exp(-3)]
    metrics = found.metrics
    assert metrics["max_w"] == pytest.approx(w[1], rel=1e-15)
    assert metrics["min_w"] == pytest.approx(w[2], rel=1e-15)
    assert metrics["mean_w"] == pytest.approx(sum(w) / 3, rel=1e-15)
    assert metrics["kl_k1"] == pytest.approx(2 / 3, rel=1e-15)
    assert metrics["kl_k3"] == pytest.approx((0 + (math.e - 2) + (w[2] + 2)) / 3, rel=1e-14)
    assert metrics["ess"] == pytest.approx(sum(w) ** 2 / (3 * sum(x * x for x in w)), rel=1e-14)
    assert metrics["mean_abs_dlogp"] == pytest.approx(4 / 3, rel=1e-15)
    assert metrics["confident_disagreement"] == pytest.approx(1 / 3, rel=1e-15)
    assert found.value == metrics["mean_abs_dlogp"]


def test_a_fault_that_max_w_does_not_show_fails() -> None:
    """Tokens that the trainer finds improbable have w near 0; ESS stays high."""
    old = [-0.5] * 90 + [-8.0] * 10
    found = finding([turn([-0.5] * 100, old, **at_lag(0))])
    assert found.metrics["max_w"] == 1.0
    assert found.metrics["ess"] > 0.85
    assert found.status == "fail"
    assert [(each.token_index, each.kind) for each in found.evidence] == [(90, "mismatch_at_equal_version")]


def test_rounding_to_four_decimals_is_no_fault() -> None:
    rng = np.random.default_rng(1)
    old = -rng.exponential(1, 500)
    assert finding([turn(np.round(old, 4).tolist(), old.tolist(), **at_lag(0))]).status == "ok"


def test_a_good_lag_0_and_a_bad_lag_2_is_stale() -> None:
    rng = np.random.default_rng(2)
    mu = -rng.exponential(1, 200)
    near, far = np.minimum(mu + rng.normal(0, 1e-3, 200), 0), np.minimum(mu + rng.normal(0, 0.3, 200), 0)
    rows = [turn(mu.tolist(), near.tolist(), **at_lag(0)), turn(mu.tolist(), far.tolist(), turn=2, **at_lag(2))]
    found = finding(rows)
    assert [(row["lag"], row["tokens"], row["status"]) for row in found.breakdown] == [(0, 200, "ok"), (2, 200, "fail")]
    assert [(each.turn, each.kind, each.detail["lag"]) for each in found.evidence] == [(2, "stale", 2)]


def test_a_mismatch_at_lag_0_explains_the_larger_lags_too() -> None:
    rng = np.random.default_rng(3)
    mu = -rng.exponential(1, 200)
    rows = [
        turn(mu.tolist(), (mu - np.abs(rng.normal(0, 0.4, 200))).tolist(), turn=lag + 1, **at_lag(lag))
        for lag in range(3)
    ]
    assert {each.kind for each in finding(rows).evidence} == {"mismatch_at_equal_version"}


def test_staleness_above_a_floor_is_stale_where_the_floor_is_the_smaller_part() -> None:
    rng = np.random.default_rng(4)
    mu = -rng.exponential(1, 400) - 1
    rows = [
        turn(mu.tolist(), (mu + rng.normal(0, scale, 400)).tolist(), turn=lag + 1, **at_lag(lag))
        for lag, scale in ((0, 0.06), (3, 0.6))
    ]
    assert {(each.detail["lag"], each.kind) for each in finding(rows).evidence} == {
        (0, "mismatch_at_equal_version"),
        (3, "stale"),
    }


def test_an_unknown_lag_has_numbers_and_no_kind() -> None:
    found = finding([turn([-1.0] * 20, [-2.0] * 20)])
    assert (found.status, found.breakdown[0]["lag"], found.evidence[0].kind) == ("fail", None, None)


@pytest.mark.parametrize("temperature", [0.5, 0.7, 0.9, 1.3, 2.0])
@pytest.mark.parametrize("side", ["engine", "trainer"])
def test_a_missing_division_by_the_temperature_is_told_on_either_side(temperature: float, side: str) -> None:
    raw, scaled = sampled(200, temperature, seed=int(temperature * 10))
    mu, old = (raw, scaled) if side == "engine" else (scaled, raw)
    found = finding([turn(mu.tolist(), old.tolist(), temperature=temperature, **at_lag(0))])
    assert {each.kind for each in found.evidence} == {"unscaled_temperature"}
    assert ("sampled_logprobs fit" if side == "engine" else "trainer_logprobs fit") in (found.evidence[0].text or "")


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_other_mismatches_at_a_temperature_are_not_taken_for_it(temperature: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, scaled = sampled(300, temperature, seed=seed)
    noisy = np.minimum(scaled + rng.normal(0, 0.4, 300), -1e-9)
    worse = np.where(rng.random(300) < 0.3, scaled - rng.exponential(3, 300), scaled)
    for old in (noisy, worse):
        found = finding([turn(scaled.tolist(), old.tolist(), temperature=temperature, **at_lag(0))])
        assert {each.kind for each in found.evidence} == {"mismatch_at_equal_version"}


def test_the_bound_on_undivided_logits_holds_for_every_distribution() -> None:
    """odds of softmax(z/T) >= odds of softmax(z) to the 1/T for T < 1, and <= for T > 1."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        z = rng.normal(0, rng.uniform(0.1, 6), int(rng.integers(2, 40)))
        temperature = float(rng.choice([0.3, 0.7, 0.95, 1.2, 3.0]))
        raw, scaled = (x - np.log(np.exp(x).sum()) for x in (z, z / temperature))
        told, held = raw_tokens(raw, scaled, temperature)
        assert held == told


def test_raw_mode_at_a_temperature_is_the_cause_when_the_weights_are_off() -> None:
    row = turn([-1.0] * 20, [-2.0] * 20, temperature=0.6, logprob_mode="raw", **at_lag(0))
    assert finding([row]).evidence[0].kind == "unscaled_temperature"
    assert finding([turn([-1.0] * 20, [-1.0] * 20, temperature=0.6, logprob_mode="raw", **at_lag(0))]).status == "ok"


def test_a_mu_that_is_the_base_models_is_named() -> None:
    rng = np.random.default_rng(5)
    base = -rng.exponential(1, 100) - 0.5
    old = base + rng.normal(0, 0.5, 100)
    mu = base + rng.normal(0, 0.01, 100)
    row = turn(mu.tolist(), old.tolist(), reference_logprobs=base.tolist(), adapter="a", adapter_version=3)
    assert {each.kind for each in finding([row | {"trainer_version": 3}]).evidence} == {"base_model_served"}
    of_base = row | {"adapter_version": 0, "trainer_version": 3}
    assert {each.kind for each in finding([of_base]).evidence} == {"stale"}, "version 0 is the base model"


def test_the_sampling_versions_own_scores_tell_the_engine_from_the_policy() -> None:
    rng = np.random.default_rng(6)
    mu = -rng.exponential(1, 100) - 1
    old = (mu + rng.normal(0, 0.4, 100)).tolist()
    drift = turn(mu.tolist(), old, sampling_version_logprobs=(mu + 1e-3).tolist(), **at_lag(2))
    engine = turn(mu.tolist(), old, sampling_version_logprobs=old, **at_lag(2))
    assert {each.kind for each in finding([drift]).evidence} == {"stale"}
    assert {each.kind for each in finding([engine]).evidence} == {"mismatch_at_equal_version"}


def test_two_tokens_tell_no_shift() -> None:
    (fault,) = finding([turn([-9.0, -0.1], [-0.1, -0.1], **at_lag(0))]).evidence
    assert "moved by one" not in (fault.text or "")


@pytest.mark.parametrize(("moved", "said"), [(1, "one token too late"), (-1, "one token too early")])
def test_lists_shifted_by_one_are_said_to_be(moved: int, said: str) -> None:
    old = (-np.random.default_rng(8).exponential(1, 60)).tolist()
    mu = [0.0, *old[:-1]] if moved == 1 else [*old[1:], 0.0]
    found = finding([turn(mu, old, **at_lag(0))])
    assert found.evidence[0].kind == "mismatch_at_equal_version"
    assert said in (found.evidence[0].text or "")


@pytest.mark.parametrize("edge", [0, -1])
def test_a_fault_at_the_edge_of_short_turns_is_no_shift(edge: int) -> None:
    """Moving the lists by one leaves one token out, which must not be what makes them agree."""
    old = [-0.01, -0.02, -0.001, -0.02]
    old[edge] = -9.0
    mu = [-0.01, -0.02, -0.001, -0.02]
    found = finding([turn(mu, old, turn=n, **at_lag(0)) for n in range(1, 9)])
    assert found.status == "fail"
    assert not any("moved by one" in (each.text or "") for each in found.evidence)


def test_mu_renormalised_within_top_p_is_said_to_be() -> None:
    rng = np.random.default_rng(9)
    old = -rng.exponential(1, 80) - 0.3
    mu = old - np.log(rng.uniform(0.8, 1, 80))
    found = finding([turn(mu.tolist(), old.tolist(), top_p=0.8, **at_lag(0))])
    assert "renormalised within top_p 0.8" in (found.evidence[0].text or "")


def test_turns_with_lists_of_unequal_length_are_counted_and_have_no_ratio() -> None:
    rows = [turn([-1.0] * 20, [-1.0] * 20), turn([-1.0] * 20, [-5.0] * 19, turn=2)]
    found = finding(rows)
    assert (found.status, found.metrics["max_w"]) == ("ok", 1.0)
    assert "1 scored turns with lists of unequal length have no ratio" in found.summary


def test_a_log_of_nothing_but_unequal_lists_is_no_data_and_has_no_number() -> None:
    found = finding([turn([-1.0, 0.0], [-1.0])])
    assert (found.status, found.metrics, found.value) == ("no_data", {}, None)
    assert "unequal length" in found.summary


@pytest.mark.parametrize("bad", [math.nan, -math.inf, None])
def test_what_is_no_finite_number_fails_and_is_placed(bad: float | None) -> None:
    found = finding([turn([-1.0] * 20, [-1.0] * 19 + [bad])])  # pyright: ignore[reportArgumentType]
    assert found.status == "fail"
    assert [(each.turn, each.token_index, each.kind) for each in found.evidence] == [(1, 19, "not_finite")]
    assert (found.metrics["max_w"], found.breakdown[0]["tokens"]) == (1.0, 19)


def test_a_turn_of_nothing_finite_fails_without_numbers() -> None:
    found = finding([turn([math.nan], [-1.0])])
    assert (found.status, found.value, found.metrics) == ("fail", None, {})


def test_a_ratio_too_large_for_a_float_is_null_in_json_and_fails() -> None:
    report = run({"turns": pl.DataFrame([turn([-2000.0] * 20, [0.0] * 20)])}, checks=IW)
    printed = json.loads(as_json(report))
    assert report.findings[0].status == "fail"
    assert printed["metrics"]["max_w"] is None
    assert "ess" not in printed["metrics"]


def test_evidence_whose_w_is_too_large_for_a_float_is_null_and_says_so() -> None:
    rows = [turn([-1.0] * 19 + [-1000.0], [-1.0] * 19 + [0.0], **at_lag(0))]
    report = run({"turns": pl.DataFrame(rows)}, checks=IW)
    [evidence] = report.findings[0].evidence
    assert (evidence.value, evidence.kind) == (math.inf, "mismatch_at_equal_version")
    [printed] = json.loads(as_json(report))["findings"][0]["evidence"]
    assert (printed["value"], printed["kind"], printed["token_index"]) == (None, "not_finite", 19)
    # What the check makes of it is still said.
    assert printed["text"] == evidence.text
    assert printed["text"].startswith("w inf: ")


def test_weights_whose_sum_has_no_square_have_an_ess() -> None:
    # Three equal weights of e^354: the square of each is a float, that of their sum is none.
    found = finding([turn([-354.0] * 3, [0.0] * 3)])
    assert found.metrics["ess"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("beyond", [-1e308, -1e61])
def test_a_number_no_model_gives_is_placed_as_not_finite(beyond: float) -> None:
    found = finding([turn([-1.0] * 20, [-1.0, beyond] + [-1.0] * 18)])
    assert [(each.kind, each.token_index) for each in found.evidence] == [("not_finite", 1)]
    assert found.metrics["mean_abs_dlogp"] == 0.0


def test_tokens_that_the_mask_leaves_out_do_not_count() -> None:
    found = finding([turn([-1.0] * 20, [-1.0] * 19 + [-9.0], loss_mask=[0] + [1] * 19 + [0])])
    assert (found.status, found.breakdown[0]["tokens"]) == ("ok", 19)


def test_one_wrong_turn_among_many_right_ones_is_a_warning_and_is_named() -> None:
    right = [turn([-0.4] * 40, [-0.4] * 40, turn=n, **at_lag(0)) for n in range(1, 400)]
    wrong = turn([-0.4] * 40, [-0.4] * 30 + [-4.0] * 10, turn=400, **at_lag(0))
    found = finding([*right, wrong], limits={"confident_warn_at": 1e-3})
    assert found.metrics["mean_abs_dlogp"] < 0.03
    assert found.status == "warn"
    assert [(each.turn, each.token_index) for each in found.evidence] == [(400, 30)]


def test_one_zero_in_place_of_a_log_probability_fails_and_is_named() -> None:
    right = [turn([-0.4] * 40, [-0.4] * 40, turn=n, **at_lag(0)) for n in range(1, 400)]
    padded = turn([-0.4] * 39 + [0.0], [-0.4] * 39 + [-3.0], turn=400, **at_lag(0))
    found = finding([*right, padded])
    assert found.metrics["confident_disagreement"] < 1e-4
    assert found.status == "fail"
    assert [(each.turn, each.token_index, each.kind) for each in found.evidence] == [(400, 39, "zero_padded")]
    assert "mu is exactly 1 at 1 tokens" in found.summary


@pytest.mark.parametrize(
    ("mu", "old", "lag"), [(0.0, -1.9, 0), (-1e-7, -3.0, 0), (0.0, -3.0, 2)], ids=["sure too", "not 1", "stale"]
)
def test_a_certain_token_is_no_padding_where_the_trainer_or_time_explains_it(mu: float, old: float, lag: int) -> None:
    right = [turn([-0.4] * 40, [-0.4] * 40, turn=n, **at_lag(lag)) for n in range(1, 400)]
    found = finding([*right, turn([-0.4] * 39 + [mu], [-0.4] * 39 + [old], turn=400, **at_lag(lag))])
    assert found.status in ("ok", "warn")
    assert "zero_padded" not in {each.kind for each in found.evidence}


def test_adapters_are_judged_apart() -> None:
    good = [turn([-0.4] * 40, [-0.4] * 40, turn=n, adapter="good", adapter_version=1) for n in range(1, 40)]
    bad = turn([-0.4] * 40, [-0.6] * 40, turn=99, adapter="bad", adapter_version=1)
    found = finding([row | {"trainer_version": 1} for row in (*good, bad)])
    assert [(row["adapter"], row["status"]) for row in found.breakdown] == [("bad", "fail"), ("good", "ok")]
    assert [each.adapter for each in found.evidence] == ["bad"]


def test_lags_are_of_steps_where_the_versions_table_has_them() -> None:
    table = pl.DataFrame({"adapter": ["a", "a"], "version": [1, 2], "state": ["live"] * 2, "optimizer_step": [10, 25]})
    row = turn([-1.0] * 20, [-1.0] * 20, adapter="a", adapter_version=1, trainer_version=2)
    assert [each["lag"] for each in finding([row], versions=table).breakdown] == [15]


def test_limits_are_the_callers() -> None:
    row = turn([-1.0] * 20, [-1.02] * 20, **at_lag(0))
    assert finding([row]).status == "warn", "k1 0.02 is above 0.01"
    assert finding([row], limits={"kl_warn_at": 0.05}).status == "ok"
    assert finding([row], limits={"mean_abs_fail_at": 0.01}).status == "fail"


def test_a_trainers_own_numbers_are_graded_where_there_are_no_tokens() -> None:
    steps = pl.DataFrame({"step": [1, 2, 3], "mean_abs_dlogp": [0.01, 0.2, 0.02], "max_w": [1.2, 30.0, 1.1]})
    found = finding([{"session_id": "s"}], steps=steps)
    assert found.status == "fail"
    assert [(each.step, each.status) for each in found.evidence] == [(2, "fail")]
    assert found.metrics == {"mean_abs_dlogp": pytest.approx(0.23 / 3), "max_w": 30.0}


def test_the_plots_have_positions_and_a_histogram_for_each_lag() -> None:
    rows = [turn([-1.0] * 20, [-1.0] * 20, turn=lag + 1, **at_lag(lag)) for lag in (0, 1)]
    series = {each.name: each for each in finding(rows).series}
    assert series["log w by position, mean"].y == (0.0, 0.0)
    assert series["log w by position, mean"].x == (0.0, 16.0)
    assert sum(y or 0 for y in series["log w at lag 1"].y) == 1.0
    assert max(zip(series["log w at lag 1"].y, series["log w at lag 1"].x, strict=True), key=lambda p: p[0] or 0)[
        1
    ] == pytest.approx(0.025)


def test_the_samples_are_read_as_meant() -> None:
    folder = Path(__file__).parents[3] / "samples" / "importance-weight"
    found = run(open_log(folder / "fires.jsonl"), checks=IW).findings[0]
    assert {each.kind for each in found.evidence} == {"unscaled_temperature"}


@pytest.mark.parametrize(
    ("logged", "value", "unit", "warn"),
    [
        ({"mean_abs_dlogp": 0.02, "kl_mu_old": 0.001}, 0.02, "nats", 0.03),
        ({"kl_mu_old": 0.001, "kl_k3": 0.002, "max_w": 2.0}, 0.001, "nats of k1", 0.01),
        ({"max_w": 2.0, "ess": 0.9}, 2.0, "largest w", 10.0),
    ],
)
def test_a_log_of_numbers_by_step_is_told_by_one_that_it_has(
    logged: dict[str, float], value: float, unit: str, warn: float
) -> None:
    found = run({"steps": pl.DataFrame([{"step": 1, **logged}])}, checks=IW).findings[0]
    assert (found.status, found.value, found.unit) == ("ok", value, unit)
    assert found.threshold is not None
    assert found.threshold.warn == warn
