"""The handed-over cases of groups and metrics, as native records."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from checks.group_advantage import group_advantages
from checks.pass_rate import pass_at_k
from tests.checks.records import check

START = datetime(2026, 1, 1, tzinfo=UTC)
ROLES = {"sampler": "engine"}
"""The cases' word for a role, and ours."""


# Any: a case, a JSON object.
def cases(folder: Path, *areas: str) -> list[dict[str, Any]]:
    read = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder / "cases").glob("*.json"))]
    return [case for case in read if case["area"] in areas]


def groups(case: dict[str, Any]) -> None:
    given, expected = case["input"]["groups"], case["expected"]
    turns = [
        {"session_id": f"{name}-{at}", "group_id": name, "reward": reward}
        for name, rewards in given.items()
        for at, reward in enumerate(rewards)
    ]
    found = check("zero-variance-group", turns=turns)
    assert found.value == pytest.approx(expected["fraction_zero_variance"], abs=1e-12)
    assert [each.group_id for each in found.evidence if each.status == "info"] == expected["zero_variance_groups"]
    for name, advantages in expected["advantages"].items():
        assert group_advantages(given[name]) == pytest.approx(advantages, abs=1e-12)


def rates(case: dict[str, Any]) -> None:
    rows = case["input"]["rows"]
    assert [pass_at_k(row["n"], row["c"], row["k"]) for row in rows] == case["expected"]["values"]
    alone = case["input"].get("tasks_one_sample_each")
    if alone is None:
        return
    evals = [{"task_id": str(at), "sample": 0, "passed": at < alone["solved"]} for at in range(alone["tasks"])]
    metrics = check("pass-at-k", evals=evals).metrics
    for k, value in case["expected"]["tasks_one_sample_each"].items():
        assert metrics.get(f"pass_at_{k}") == value


def rows_as_logs(case: dict[str, Any]) -> None:
    """Each row as the log of one task: a value of ours must be the expected one, or left out where that is."""
    for row, value in zip(case["input"]["rows"], case["expected"]["values"], strict=True):
        evals = [{"task_id": "t", "sample": at, "passed": at < row["c"]} for at in range(row["n"])]
        metrics = check("pass-at-k", evals=evals).metrics
        if value is None or row["k"] in (1, 2, 4, row["n"]):
            assert metrics.get(f"pass_at_{row['k']}") == value, row


def stalled(case: dict[str, Any]) -> None:
    spans = [
        {
            "role": ROLES.get(event["role"], event["role"]),
            "kind": event["kind"],
            "from": START + timedelta(seconds=event["from"]),
            "to": START + timedelta(seconds=event["to"]),
        }
        for event in case["input"]["events"]
    ]
    metrics, expected = check("stall-time", spans=spans).metrics, case["expected"]
    for theirs, ours in (
        ("trainer_stall_seconds", "stall_trainer_s"),
        ("trainer_stall_fraction", "stall_trainer_share"),
        ("sampler_stall_seconds", "stall_engine_s"),
        ("seconds_with_both_stalled", "stall_both_s"),
        ("seconds_with_any_stalled", "stall_any_s"),
    ):
        if theirs in expected:
            assert metrics[ours] == pytest.approx(expected[theirs], abs=1e-9), theirs


def told(case: dict[str, Any]) -> list[Callable[[dict[str, Any]], None]]:
    """How a case is read, by what its input holds."""
    shapes = {"groups": [groups], "rows": [rates, rows_as_logs], "events": [stalled]}
    return [reader for key, readers in shapes.items() if key in case["input"] for reader in readers]


def test_every_case_of_groups_and_metrics_is_answered_as_expected(shared_folder: Path) -> None:
    found = cases(shared_folder, "groups", "metrics")
    assert found
    for case in found:
        readers = told(case)
        assert readers, f"{case['case']}: no reader for an input of {sorted(case['input'])}"
        for reader in readers:
            reader(case)
