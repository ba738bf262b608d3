"""tinker-cookbook's capture: lines and a store generated from its own writers and its own table definition (0.6.1)."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, rows, turns, unreadable, write_lines

SCOPE = {"run_id": "r", "run_attempt": 0, "split": "train", "iteration": 5, "group_idx": 2, "traj_idx": 1}
DDL = """CREATE TABLE wire_rows (
    cursor INTEGER PRIMARY KEY, run_id TEXT NOT NULL, run_attempt INTEGER, split TEXT, iteration INTEGER,
    group_idx INTEGER, traj_idx INTEGER, purpose TEXT, sampling_session_id TEXT, seq_id INTEGER, sample_idx INTEGER,
    policy_version TEXT, created_at REAL, prompt_tokens TEXT, sampled_tokens TEXT, logprobs TEXT, metadata TEXT)"""


def _sample(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "sample",
        "scope": SCOPE,
        "created_at": 1_760_000_000.0,
        "seq_id": 1,
        "model_path": "tinker://run/sampler_weights/000003",
        "base_model": "Qwen/Qwen3-8B",
        "prompt_tokens": [1, 2],
        "prompt_length": 2,
        "sampling_params": {"max_tokens": 64, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "seed": 3},
        "samples": [{"tokens": [3, 4], "logprobs": [-0.5, 0.0], "stop_reason": "length"}],
        "status": "ok",
        "latency_sec": 2.5,
    } | changes


def test_calls_of_one_trajectory_are_turns_with_their_version(tmp_path: Path) -> None:
    more = _sample(prompt_tokens=[1, 2, 3, 4, 9], prompt_length=5, samples=[{"tokens": [5], "logprobs": [-1.0]}])
    first, second = turns(opened(write_lines(tmp_path / "capture" / "sample.jsonl", [_sample(), more])))
    assert [(turn["session_id"], turn["turn"]) for turn in (first, second)] == [
        ("r/0/train/5/2/1", 1),
        ("r/0/train/5/2/1", 2),
    ]
    assert (first["prompt_ids"], first["completion_ids"], first["sampled_logprobs"]) == ([1, 2], [3, 4], [-0.5, 0.0])
    assert (second["prompt_ids"], second["completion_ids"]) == ([1, 2, 3, 4, 9], [5])
    assert first["weight_versions"] == [{"version": "3", "start": 0, "end": 2}]
    assert (first["trainer_step"], first["trainer_version"], first["group_id"]) == (5, 5, "r/0/train/5/2")
    assert (first["finish_reason"], second["finish_reason"]) == ("length", None)
    assert (first["temperature"], first["top_k"], first["max_tokens"], first["stated_prompt_tokens"]) == (
        1.0,
        -1,
        64,
        2,
    )
    assert (first["finished_at"] - first["started_at"]).total_seconds() == 2.5
    assert first["loss_mask"] is None


def test_samples_of_one_call_and_calls_without_a_trajectory_are_apart(tmp_path: Path) -> None:
    two = [{"tokens": [3], "logprobs": [-0.5]}, {"tokens": [4], "logprobs": [-1.5]}]
    lines = [_sample(samples=two), _sample(scope={}), _sample(scope={"split": "test"})]
    found = turns(opened(write_lines(tmp_path / "sample.jsonl", lines)))
    assert len({turn["session_id"] for turn in found}) == 4
    assert [turn["session_id"] for turn in found][:2] == ["r/0/train/5/2/1/sample0", "r/0/train/5/2/1/sample1"]
    assert [turn["purpose"] for turn in found] == [None, None, None, "eval"]


def test_a_call_that_failed_is_a_turn_without_tokens(tmp_path: Path) -> None:
    failed = {name: value for name, value in _sample(status="error", error="x").items() if name != "samples"}
    (turn,) = turns(opened(write_lines(tmp_path / "sample.jsonl", [failed])))
    assert (turn["finish_reason"], turn["completion_ids"], turn["prompt_ids"]) == ("error", None, [1, 2])


def test_training_operations_are_spans_of_the_trainer(tmp_path: Path) -> None:
    op = {
        "kind": "train_op",
        "op": "forward_backward",
        "scope": SCOPE,
        "created_at": 1_760_000_010.0,
        "latency_sec": 4.0,
    }
    log = opened(write_lines(tmp_path / "train_op.jsonl", [op, op | {"op": "save_weights_for_sampler"}]))
    (span,) = rows(log, "spans")
    assert (span["role"], span["kind"], (span["to"] - span["from"]).total_seconds()) == ("trainer", "step", 4.0)


def _store(path: Path, values: list[dict[str, Any]]) -> Path:
    with sqlite3.connect(path) as database:
        database.execute(DDL)
        for row in values:
            names = ", ".join(row)
            marks = ", ".join("?" for _ in row)
            database.execute(f"insert into wire_rows ({names}) values ({marks})", tuple(row.values()))
    return path


def test_rows_of_the_store_are_the_same_turns(tmp_path: Path) -> None:
    row = SCOPE | {
        "seq_id": 1,
        "sample_idx": 0,
        "policy_version": "tinker://run/sampler_weights/000003",
        "created_at": 1_760_000_000.0,
        "prompt_tokens": json.dumps([1, 2]),
        "sampled_tokens": json.dumps([3, 4]),
        "logprobs": json.dumps([-0.5, 0.0]),
    }
    broken = row | {"seq_id": 2, "sampled_tokens": "[3, "}
    log = opened(
        _store(tmp_path / "capture.sqlite", [row, broken, row | {"seq_id": 3, "prompt_tokens": "[1,2,3,4,9]"}])
    )
    stored = turns(log)
    (captured,) = turns(opened(write_lines(tmp_path / "lines" / "sample.jsonl", [_sample()])))
    for name in (
        "session_id",
        "turn",
        "group_id",
        "prompt_ids",
        "completion_ids",
        "sampled_logprobs",
        "weight_versions",
    ):
        assert stored[0][name] == captured[name], name
    assert [(turn["session_id"], turn["turn"]) for turn in stored] == [("r/0/train/5/2/1", 1), ("r/0/train/5/2/1", 2)]
    assert [place for place, _ in unreadable(log)] == ["capture.sqlite seq 2 sample 0"]
