"""Real records of broken and healthy runs: our numbers per lag equal those of the tool that recorded them."""

import json
import sqlite3
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checks.finding import Finding
from checks.suite import run

VERL = "verl_grpo_vllm_t4_8steps_seed0"
TRL = "trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe"


def flat_turns(folder: Path) -> Iterator[dict[str, Any]]:
    """Scored sequences of the flattened record: each score as a turn of its own."""
    for line in (folder / "derived_flat.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["trainer_logprobs"] is None:
            continue
        behaviour = row["behavior_steps"]
        yield {
            "session_id": f"{row['sequence_id']} at {row['train_step']}",
            "prompt_ids": row["prompt_ids"],
            "completion_ids": row["response_ids"],
            "sampled_logprobs": row["rollout_logprobs"],
            "trainer_logprobs": row["trainer_logprobs"],
            "trainer_step": row["train_step"],
            "weight_versions": [
                {"version": str(step), "start": index, "end": index + 1} for index, step in enumerate(behaviour)
            ],
        }


def recorded_turns(folder: Path) -> Iterator[dict[str, Any]]:
    """Scored sequences of tokens.db: tokens that one revision of the trainer scored, as a turn."""
    database = sqlite3.connect(f"file:{folder / 'tokens.db'}?mode=ro&immutable=1", uri=True)
    steps = dict(database.execute("SELECT digest, step FROM llm_revisions"))
    scores: dict[tuple[str, str], dict[int, float]] = {}
    query = "SELECT sequence_digest, train_revision_digest, position, record_json FROM scores"
    for sequence, revision, position, record in database.execute(query):
        scores.setdefault((sequence, revision), {})[position] = _float(json.loads(record)["logprob_bits"])
    records = {d: json.loads(text) for d, text in database.execute("SELECT digest, record_json FROM sequences")}
    for (sequence, revision), scored in scores.items():
        tokens = [token for token in records[sequence]["tokens"] if token["position"] in scored]
        spans = [
            {"version": str(steps[token["revision_digest"]]), "start": index, "end": index + 1}
            for index, token in enumerate(tokens)
        ]
        yield {
            "session_id": f"{sequence} at {revision}",
            "prompt_ids": records[sequence]["prompt_ids"],
            "completion_ids": [token["token_id"] for token in tokens],
            "sampled_logprobs": [_float(token["logprob_bits"]) for token in tokens],
            "trainer_logprobs": [scored[token["position"]] for token in tokens],
            "trainer_step": steps[revision],
            "weight_versions": spans,
        }


def _float(bits: str) -> float:
    assert bits.startswith("f32:")
    return struct.unpack(">f", bytes.fromhex(bits.removeprefix("f32:")))[0]


def finding(turns: Iterator[dict[str, Any]]) -> Finding:
    return run({"turns": pl.DataFrame(list(turns), infer_schema_length=None)}).finding("importance-weight")


def assert_equal_by_lag(found: Finding, report: dict[str, Any]) -> None:
    ours = {row["lag"]: row for row in found.breakdown}
    assert sorted(ours) == report["lags"]
    for theirs in report["by_lag"]:
        row, informational = ours[theirs["lag"]], theirs["float_informational"]
        assert row["tokens"] == theirs["n_tokens"]
        assert row["confident_disagreement"] * row["tokens"] == pytest.approx(theirs["n_confident_disagreements"])
        assert row["mean_abs_dlogp"] == pytest.approx(float(Fraction(theirs["mean_abs_log_ratio"])), rel=1e-12)
        assert -row["kl_k1"] == pytest.approx(float(Fraction(theirs["mean_log_ratio"])), rel=1e-10)
        assert row["mean_w"] == pytest.approx(informational["ratio_mean"], rel=1e-12)
        assert row["max_w"] == pytest.approx(informational["ratio_max"], rel=1e-12)
        assert row["ess"] == pytest.approx(informational["ess_fraction"], rel=1e-12)


def test_the_healthy_record_gives_the_same_numbers_and_only_staleness(shared_folder: Path) -> None:
    folder = shared_folder / "samples" / "martingale" / VERL
    found = finding(flat_turns(folder))
    assert_equal_by_lag(found, json.loads((folder / "report.json").read_text()))
    assert found.status == "warn"
    assert {row["lag"]: row["status"] for row in found.breakdown}[0] == "ok"
    assert {each.kind for each in found.evidence} == {"stale"}


def test_the_broken_record_gives_the_same_numbers_and_the_mismatch(shared_folder: Path) -> None:
    folder = shared_folder / "samples" / "martingale" / TRL
    found = finding(recorded_turns(folder))
    assert_equal_by_lag(found, json.loads((folder / "report.json").read_text()))
    assert found.status == "fail"
    assert {each.kind for each in found.evidence} == {"mismatch_at_equal_version"}
    # at lags 1 to 3 no w is above 1.05, and yet each lag fails: w is near 0 there, and k1 is 0.5 and more
    assert all(row["status"] == "fail" for row in found.breakdown)
