"""Sums over importance weights, against a plain loop in fractions over the same tokens."""

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.columns import SCHEMAS, completed
from checks.log import split_scores
from checks.measure import Tools
from checks.measures.importance_weights import CELL, ImportanceWeights
from checks.measures.parts import part
from checks.weights.numbers import interval, weight_numbers


def measured(*batches: list[dict[str, Any]]) -> pl.DataFrame:
    measure = ImportanceWeights(Tools())
    for rows in batches:
        names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
        frame = completed(pl.DataFrame(rows, schema=names), "turns")
        measure.add(split_scores(frame, measure.turn_columns, measure.score_columns))
    return measure.frame()


class Exact(NamedTuple):
    """Sums of one cell, exact in the log-probabilities as floats."""

    n: int
    sum_d: Fraction
    sum_abs: Fraction
    min_d: Fraction
    max_d: Fraction
    w: list[float]
    k3: list[float]
    confident: int
    padded: int


def by_hand(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], Exact]:
    """One token at a time."""
    tokens: dict[tuple[Any, ...], list[tuple[Fraction, float]]] = defaultdict(list)
    for row in rows:
        mu, old, n = row["sampled_logprobs"], row["trainer_logprobs"], len(row["completion_ids"])
        mask = row.get("loss_mask")
        if mu is None or old is None or not len(mu) == len(old) == n:
            continue
        if mask is not None and len(mask) not in (n, n + len(row["prompt_ids"])):
            continue
        for index in range(n):
            if mask is not None and mask[len(mask) - n + index] == 0:
                continue
            if not (math.isfinite(mu[index]) and math.isfinite(old[index])):
                continue
            version = row.get("adapter_version")
            if version is None:
                held = [s for s in row.get("weight_versions") or [] if s["start"] <= index < s["end"]]
                version = int(held[0]["version"]) if held and held[0]["version"].isdigit() else None
            cell = (row.get("adapter"), version, row.get("trainer_version"), row.get("temperature"))
            tokens[cell].append((Fraction(old[index]) - Fraction(mu[index]), mu[index]))
    return {cell: exact(values) for cell, values in tokens.items()}


def exact(values: list[tuple[Fraction, float]]) -> Exact:
    d = [value for value, _ in values]
    return Exact(
        n=len(d),
        sum_d=sum(d, Fraction(0)),
        sum_abs=sum((abs(value) for value in d), Fraction(0)),
        min_d=min(d),
        max_d=max(d),
        w=[math.exp(float(value)) for value in d],
        k3=[math.expm1(float(value)) - float(value) for value in d],
        confident=sum(value < -2 and mu >= math.log(0.5) for value, mu in values),
        padded=sum(value < -2 and mu == 0 for value, mu in values),
    )


def check_against_hand(frame: pl.DataFrame, rows: list[dict[str, Any]]) -> None:
    expected = by_hand(rows)
    if not expected:
        assert "cells" not in frame.columns
        return
    cells = part(frame, "cells")
    found = {
        (row["adapter"], row["sampling_version"], row["trainer_version"], row["temperature"]): row
        for row in cells.iter_rows(named=True)
    }
    assert set(found) == set(expected)
    for cell, want in expected.items():
        row = found[cell]
        numbers = weight_numbers(row)
        assert (row["n"], row["confident"], row["padded"]) == (want.n, want.confident, want.padded)
        scale = max(float(want.sum_abs), 1e-300)
        assert abs(row["sum_d"] - float(want.sum_d)) <= 1e-12 * scale
        assert numbers.mean_abs_dlogp == pytest.approx(float(want.sum_abs / want.n), rel=1e-12)
        assert numbers.max_w == pytest.approx(math.exp(float(want.max_d)), rel=1e-12)
        assert numbers.min_w == pytest.approx(math.exp(float(want.min_d)), rel=1e-12)
        assert numbers.mean_w == pytest.approx(math.fsum(want.w) / want.n, rel=1e-12)
        assert numbers.kl_k3 == pytest.approx(math.fsum(want.k3) / want.n, rel=1e-9, abs=1e-300)
        ess = math.fsum(want.w) ** 2 / (want.n * math.fsum(w * w for w in want.w))
        assert numbers.ess == pytest.approx(ess, rel=1e-12)


def random_rows(seed: int, turns: int, longest: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for number in range(turns):
        n, prompt = int(rng.integers(0, longest)), int(rng.integers(0, 4))
        mu = -rng.exponential(0.7, n) * (rng.random(n) > 0.1)
        old = np.minimum(mu + rng.normal(0, float(rng.choice([1e-6, 0.02, 1.5])), n), 0)
        cut = int(rng.integers(0, n + 1))
        spans = [{"version": "7", "start": 0, "end": cut}, {"version": "8", "start": cut, "end": n}]
        row: dict[str, Any] = {
            "session_id": f"s{number % 7}",
            "turn": number,
            "prompt_ids": [1] * prompt,
            "completion_ids": [5] * n,
            "sampled_logprobs": mu.tolist(),
            "trainer_logprobs": old.tolist(),
            "trainer_version": int(rng.integers(8, 10)),
            "temperature": float(rng.choice([1.0, 0.7])),
            "weight_versions": None if rng.random() < 0.2 else spans,
        }
        if rng.random() < 0.3:
            row |= {"adapter": "a", "adapter_version": int(rng.integers(0, 3))}
        if rng.random() < 0.4:
            whole = rng.random() < 0.5
            row["loss_mask"] = rng.integers(0, 2, n + (prompt if whole else 0)).tolist()
        if rng.random() < 0.1:
            row["trainer_logprobs"] = row["trainer_logprobs"] + [-1.0]
        if n and rng.random() < 0.1:
            row["sampled_logprobs"][int(rng.integers(0, n))] = float(rng.choice([math.nan, -math.inf]))
        rows.append(row)
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_sums_equal_a_loop_over_tokens(seed: int) -> None:
    rows = random_rows(seed, 60, 90)
    check_against_hand(measured(rows[:25], rows[25:26], rows[26:]), rows)


def test_long_turns_are_cut_into_blocks_without_a_seam() -> None:
    rows = random_rows(11, 3, 90_000)
    check_against_hand(measured(rows), rows)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.floats(-30, 0), st.floats(-30, 0), st.booleans()), max_size=9), min_size=1, max_size=5
    )
)
def test_any_small_log_equals_the_loop(turns: list[list[tuple[float, float, bool]]]) -> None:
    rows = [
        {
            "session_id": "s",
            "turn": number,
            "prompt_ids": [1, 2],
            "completion_ids": [3] * len(tokens),
            "sampled_logprobs": [mu for mu, _, _ in tokens],
            "trainer_logprobs": [old for _, old, _ in tokens],
            "loss_mask": [int(kept) for _, _, kept in tokens] if number % 2 else None,
            "trainer_version": 1,
        }
        for number, tokens in enumerate(turns)
    ]
    check_against_hand(measured(rows), rows)


def test_float32_lists_are_subtracted_in_float64() -> None:
    mu, old = np.float32(-1.1), np.float32(-1.1000012)
    row = {"session_id": "s", "turn": 1, "prompt_ids": [1], "completion_ids": [3]}
    frame = completed(
        pl.DataFrame([row]).with_columns(
            sampled_logprobs=pl.Series([[mu]], dtype=pl.List(pl.Float32)),
            trainer_logprobs=pl.Series([[old]], dtype=pl.List(pl.Float32)),
        ),
        "turns",
    )
    measure = ImportanceWeights(Tools())
    measure.add(split_scores(frame, measure.turn_columns, measure.score_columns))
    assert part(measure.frame(), "cells")["sum_d"].item() == float(old) - float(mu)


def test_several_scores_of_a_turn_are_several_ratios() -> None:
    row = {"session_id": "s", "turn": 1, "prompt_ids": [1], "completion_ids": [3, 4], "sampled_logprobs": [-1.0, -2.0]}
    turns = completed(pl.DataFrame([row]), "turns")
    measure = ImportanceWeights(Tools())
    batch = split_scores(turns, measure.turn_columns, measure.score_columns)
    scores = pl.DataFrame({"row": [0, 0], "trainer_step": [1, 2], "trainer_logprobs": [[-1.0, -2.0], [-1.5, -2.0]]})
    measure.add(batch._replace(scores=completed_scores(scores)))
    cells = part(measure.frame(), "cells").sort("trainer_step")
    assert cells["sum_d"].to_list() == [0.0, -0.5]


def completed_scores(scores: pl.DataFrame) -> pl.DataFrame:
    wanted = ("adapter", "trainer_version", "sampling_version_logprobs", "reference_logprobs")
    return scores.with_columns(pl.lit(None, SCHEMAS["turns"][name]).alias(name) for name in wanted)


def test_the_worst_token_is_named_by_its_place_in_the_completion_under_a_mask() -> None:
    row = {
        "session_id": "s",
        "turn": 3,
        "prompt_ids": [1, 2],
        "completion_ids": [3, 4, 5, 6],
        "sampled_logprobs": [-1.0, -1.0, -1.0, -0.1],
        "trainer_logprobs": [-9.0, -1.0, -0.5, -3.1],
        "loss_mask": [1, 1, 0, 1, 1, 1],
    }
    worst = part(measured([row]), "turns").row(0, named=True)
    assert (worst["turn"], worst["token_index"], worst["log_w"], worst["mu"]) == (3, 3, -3.0, -0.1)


def test_tokens_without_a_finite_ratio_are_counted_and_placed() -> None:
    row = {
        "session_id": "s",
        "turn": 1,
        "prompt_ids": [1],
        "completion_ids": [3, 4, 5],
        "sampled_logprobs": [-1.0, None, -1.0],
        "trainer_logprobs": [-1.0, -2.0, -math.inf],
    }
    frame = measured([row])
    bad = part(frame, "bad").row(0, named=True)
    assert (bad["token_index"], bad["tokens"]) == (1, 2)
    assert part(frame, "counts")["not_finite"].item() == 2
    assert part(frame, "cells")["n"].item() == 1


def test_positions_are_folded_by_bucket() -> None:
    n = 300
    old = [-1.0] * n
    old[15], old[16], old[299] = -0.5, -3.0, -2.0
    row = {"session_id": "s", "turn": 1, "prompt_ids": [1], "completion_ids": [3] * n}
    positions = part(measured([row | {"sampled_logprobs": [-1.0] * n, "trainer_logprobs": old}]), "positions")
    assert positions.sort("position").select("position", "n", "sum_d", "min_d", "max_d").rows() == [
        (0, 16, 0.5, 0.0, 0.5),
        (1, 48, -2.0, -2.0, 0.0),
        (2, 192, 0.0, 0.0, 0.0),
        (3, 44, -1.0, -1.0, 0.0),
    ]


def test_the_histogram_of_a_small_log_counts_every_token() -> None:
    old = [-1.0, -0.96, -1.3, -5.0, 0.0]
    row = {"session_id": "s", "turn": 1, "prompt_ids": [1], "completion_ids": [3] * 5}
    bins = part(measured([row | {"sampled_logprobs": [-1.0] * 4 + [-2.0], "trainer_logprobs": old}]), "histogram")
    # bins of 0.05 from -1.05: 0.0 and 0.04 are in bin 21, -0.3 in bin 15, -4 in the first and 2 in the last
    assert dict(bins.select("bin", "n").rows()) == {0: 1, 15: 1, 21: 2, 41: 1}
    assert set(CELL) <= set(bins.columns)


def test_the_interval_of_one_turn_takes_tokens_as_independent() -> None:
    d = [0.1, -0.3, 0.2, 0.0]
    row = {"session_id": "s", "turn": 1, "prompt_ids": [1], "completion_ids": [3] * 4}
    cells = part(measured([row | {"sampled_logprobs": [-1.0] * 4, "trainer_logprobs": [-1.0 + x for x in d]}]), "cells")
    low, high = interval(cells.row(0, named=True))
    mean, error = 0.15, np.std([0.1, 0.3, 0.2, 0.0], ddof=1) / 2
    assert (low, high) == (
        pytest.approx(mean - 1.959963984540054 * error),
        pytest.approx(mean + 1.959963984540054 * error),
    )


def test_the_interval_of_many_turns_takes_the_turn_as_the_unit() -> None:
    rng = np.random.default_rng(3)
    rows, sums, counts = [], [], []
    for turn in range(8):
        d = np.full(int(rng.integers(2, 9)), rng.normal(0, 0.2))
        sums.append(float(np.abs(d).sum()))
        counts.append(len(d))
        row = {"session_id": "s", "turn": turn, "prompt_ids": [1], "completion_ids": [3] * len(d)}
        rows.append(row | {"sampled_logprobs": [-5.0] * len(d), "trainer_logprobs": (d - 5.0).tolist()})
    low, high = interval(part(measured(rows), "cells").row(0, named=True))
    mean = sum(sums) / sum(counts)
    residuals = np.array(sums) - mean * np.array(counts)
    error = math.sqrt(8 / 7 * (residuals**2).sum()) / sum(counts)
    assert (high - low) / 2 == pytest.approx(1.959963984540054 * error, rel=1e-9)


def test_a_turn_of_the_base_model_is_version_0_of_the_adapter_that_trains_on_it() -> None:
    row = {"session_id": "s", "turn": 1, "completion_ids": [3], "sampled_logprobs": [-1.0]}
    spans = [{"version": "5", "start": 0, "end": 1}]
    turns = completed(pl.DataFrame([row | {"weight_versions": spans}]), "turns")
    measure = ImportanceWeights(Tools())
    batch = split_scores(turns, measure.turn_columns, measure.score_columns)
    scores = pl.DataFrame({"row": [0], "trainer_step": [1], "trainer_logprobs": [[-1.0]]})
    measure.add(batch._replace(scores=completed_scores(scores).with_columns(adapter=pl.lit("a"))))
    cells = part(measure.frame(), "cells")
    assert (cells["adapter"].item(), cells["sampling_version"].item()) == ("a", 0)
