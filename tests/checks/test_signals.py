"""The eight signals as series, from steps, spans, evaluations and turns."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from checks.columns import TABLES, completed, empty
from checks.one_source import one_source
from checks.readers.batching import frame_of
from checks.rows import Row
from checks.signals import ESTIMATE, SCHEMA, SIGNALS, signal_series
from checks.train_rewards import by_step
from tests.checks.records import converted

NAMES = ("turns", "rewards", "steps", "evals", "spans", "versions")


def series(tokens: pl.DataFrame | None = None, **tables: list[dict[str, Any]]) -> dict[tuple[str | None, str], Any]:
    """Adapter and part to its steps and values."""
    frames = [frame_of(converted(tables[name], name), name) if name in tables else empty(name) for name in NAMES]
    found = signal_series(*frames, tokens=tokens)
    assert dict(found.schema) == SCHEMA
    grouped = found.partition_by("adapter", "part", as_dict=True, maintain_order=True)
    return {(key[0], key[1]): frame.select("step", "value").rows() for key, frame in grouped.items()}


def test_there_are_eight_and_every_part_has_a_column_or_is_made() -> None:
    assert len(SIGNALS) == 8
    made = {"stall_s", "reward_eval_gap", ESTIMATE}
    columns = set(TABLES["steps"].__struct_fields__)
    assert {part.name for signal in SIGNALS for part in signal.parts} <= columns | made
    assert issubclass(TABLES["steps"], Row)


def test_steps_out_of_order_and_twice_are_sorted_and_the_last_counts() -> None:
    steps = [{"step": 3, "entropy": 0.3}, {"step": 1, "entropy": 0.1}, {"step": 3, "entropy": 0.4}, {"step": 2}]
    assert series(steps=steps) == {(None, "entropy"): [(1, 0.1), (3, 0.4)]}


def test_adapters_have_series_of_their_own() -> None:
    steps = [{"adapter": name, "step": 1, "grad_norm": norm} for name, norm in (("a", 1.0), ("b", 2.0))]
    found = series(steps=steps)
    assert found == {("a", "grad_norm"): [(1, 1.0)], ("b", "grad_norm"): [(1, 2.0)]}


def test_rows_without_an_adapter_belong_to_the_only_one() -> None:
    steps = [{"adapter": "a", "step": 10, "reward_mean": 0.5}]
    evals = [{"version": 10, "task_id": "t", "score": 0.25}]
    found = series(steps=steps, evals=evals)
    assert found[("a", "reward_eval_gap")] == [(10, 0.25)]


def test_an_evaluation_is_at_its_versions_optimizer_step() -> None:
    evals = [
        {"adapter": "a", "version": version, "task_id": task, "score": score}
        for version, task, score in ((1, "t", 0.0), (1, "u", 1.0), (2, "t", 1.0))
    ]
    versions = [{"adapter": "a", "version": 1, "optimizer_step": 40}]
    assert series(evals=evals, versions=versions) == {("a", "reward_eval"): [(2, 1.0), (40, 0.5)]}


def test_the_gap_is_train_since_the_evaluation_before_less_held_out() -> None:
    steps: list[dict[str, Any]] = [{"step": at, "reward_mean": at / 10} for at in range(1, 5)]
    steps[1]["reward_eval"], steps[3]["reward_eval"] = 0.1, 0.2
    found = series(steps=steps)[(None, "reward_eval_gap")]
    assert found == [(2, pytest.approx(0.15 - 0.1)), (4, pytest.approx(0.35 - 0.2))]


def test_pass_at_k_keeps_one_k_for_the_whole_log() -> None:
    evals = [
        {"version": version, "task_id": "t", "sample": at, "passed": at < successes}
        for version, samples, successes in ((1, 4, 1), (2, 4, 0), (3, 2, 2))
        for at in range(samples)
    ]
    assert series(evals=evals)[(None, "pass_at_k")] == [(1, 1.0), (2, 0.0)], "version 3 has no four samples"


def test_mfu_is_counted_where_the_flops_are() -> None:
    steps = [{"step": 1, "duration_s": 2, "model_flops": 3, "peak_flops": 5, "mfu": 0.9}, {"step": 2, "mfu": 0.4}]
    assert series(steps=steps) == {(None, "mfu"): [(1, 0.3), (2, 0.4)]}


def test_stall_of_spans_is_shared_out_between_the_ends_of_steps() -> None:
    def at(second: float) -> str:
        return f"2026-11-01T10:00:{second:06.3f}Z"

    spans = [
        {"role": "trainer", "kind": "step", "from": at(start), "to": at(end)}
        for start, end in ((0, 5), (8, 10), (11, 20))
    ]
    steps = [{"step": step, "at": at(end)} for step, end in ((1, 5), (2, 9), (3, 20))]
    assert series(steps=steps, spans=spans) == {(None, "stall_s"): [(1, 0.0), (2, 3.0), (3, 1.0)]}


def test_tokens_stand_before_what_steps_hold_and_a_series_is_of_one_source() -> None:
    tokens = pl.DataFrame({"adapter": ["a", "a"], "step": [1, 2], "max_w": [1.5, 2.5], "entropy": [0.5, 0.6]})
    found = series(tokens, steps=[{"adapter": "a", "step": step, "max_w": 9.0} for step in range(1, 5)])
    assert found[("a", "max_w")] == [(1, 1.5), (2, 2.5)], "two of four steps"
    assert found[("a", "entropy")] == [(1, 0.5), (2, 0.6)]
    longer = series(tokens, steps=[{"adapter": "a", "step": step, "max_w": 9.0} for step in range(1, 6)])
    assert longer[("a", "max_w")] == [(step, 9.0) for step in range(1, 6)], "two of five steps"


def test_the_estimate_is_a_series_only_where_nothing_else_tells_the_entropy() -> None:
    tokens = pl.DataFrame(
        {"adapter": ["a", "b", "c"], "step": [1, 1, 1], "entropy": [0.5, None, None], ESTIMATE: [0.7, 0.8, 0.9]}
    )
    found = series(tokens, steps=[{"adapter": "b", "step": 1, "entropy": 0.6}])
    assert found == {("a", "entropy"): [(1, 0.5)], ("b", "entropy"): [(1, 0.6)], ("c", ESTIMATE): [(1, 0.9)]}


def test_tokens_of_the_only_adapter_and_steps_without_one_are_of_one_run() -> None:
    tokens = pl.DataFrame({"adapter": ["a"], "step": [1], "max_w": [1.5]})
    found = series(tokens, steps=[{"step": 1, "max_w": 9.0, "grad_norm": 1.0}])
    assert found == {("a", "max_w"): [(1, 1.5)], ("a", "grad_norm"): [(1, 1.0)]}


def test_an_adapter_whose_reward_no_step_logs_has_that_of_its_sessions() -> None:
    steps = [{"adapter": "a", "step": 1, "reward_mean": 0.5}]
    turns = [{"session_id": "s", "adapter": "b", "trainer_step": 1, "reward": 1.0}]
    evals = [{"adapter": name, "version": 1, "task_id": "t", "score": 0.25} for name in ("a", "b")]
    found = series(steps=steps, turns=turns, evals=evals)
    assert found[("a", "reward_eval_gap")] == [(1, 0.25)]
    assert found[("b", "reward_eval_gap")] == [(1, 0.75)]


def test_nothing_logged_is_no_series() -> None:
    assert series(steps=[{"step": 1}]) == {}


def test_step_spans_number_the_steps_that_do_not_say_when_they_ended() -> None:
    spans = [
        {"role": "trainer", "kind": "step", "from": f"2026-11-01T10:00:{start}Z", "to": f"2026-11-01T10:00:{end}Z"}
        for start, end in (("00", "10"), ("14", "20"))
    ]
    steps = [{"step": 7}, {"step": 8}]
    assert series(steps=steps, spans=spans) == {(None, "stall_s"): [(7, 0.0), (8, 4.0)]}
    assert series(steps=[*steps, {"step": 9}], spans=spans) == {}


def test_each_part_that_tokens_tell_too_is_that_of_its_own_choice_of_source() -> None:
    random = np.random.default_rng(5)
    names = ("max_w", "min_w", "kl_mu_old", "ess", "staleness_mean")

    def drawn(rows: int) -> pl.DataFrame:
        """Adapters, steps that come again, and a value here and there."""
        known = random.random()
        values = {name: [v if k < known else None for k, v in random.random((rows, 2))] for name in names}
        keys = {"adapter": random.choice(["a", "b"], rows).tolist(), "step": random.integers(0, 40, rows).tolist()}
        return pl.DataFrame(
            keys | values, schema={"adapter": pl.String, "step": pl.Int64} | dict.fromkeys(names, pl.Float64)
        )

    for _ in range(30):
        steps, tokens = drawn(60), drawn(int(random.integers(0, 80))).unique(["adapter", "step"])
        frames = [completed(steps, "steps") if name == "steps" else empty(name) for name in NAMES]
        found = signal_series(*frames, tokens=tokens)
        for name in names:
            told = tokens.select("adapter", "step", value=name)
            expected = one_source(told, by_step(steps, pl.col(name))).select("adapter", "step", "value")
            assert found.filter(part=name).select("adapter", "step", "value").equals(expected)
