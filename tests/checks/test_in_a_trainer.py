"""The suite in somebody's training loop: frames of a step go in, findings come out, in the lines the README shows."""

import polars as pl

from checks import suite


def test_a_training_loop_checks_its_own_rollouts() -> None:
    rollouts = [
        {"session_id": "a", "prompt_ids": [1, 2], "completion_ids": [3, 4], "finish_reason": "length"},
        {"session_id": "b", "prompt_ids": [1, 2], "completion_ids": [5, 6], "finish_reason": "stop"},
    ]
    said: list[str] = []

    report = suite.run({"turns": pl.DataFrame(rollouts)})
    for finding in report.findings:
        if finding.status in ("warn", "fail"):
            said.append(f"{finding.check}: {finding.summary}")

    assert "truncation: 1 of 2 turns were cut by the length limit" in said
    assert report.finding("truncation").evidence[0].session_id == "a"
    assert report.metrics["truncated_share"] == 0.5
    assert report.counts.tokens == 8
