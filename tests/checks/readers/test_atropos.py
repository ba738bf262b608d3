"""Atropos: groups generated from the definition of ScoredDataGroup."""

from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, scores, turns, unreadable, write_lines


def _group(**changes: Any) -> dict[str, Any]:
    return {
        "tokens": [[1, 2, 3, 4], [1, 2, 5, 6, 7]],
        "masks": [[-100, -100, 3, 4], [-100, -100, 5, -100, 7]],
        "scores": [1.0, -1.0],
        "advantages": None,
        "ref_logprobs": None,
        "messages": None,
        "inference_logprobs": [[1.0, 1.0, -0.5, -0.25], [1.0, 1.0, -1.0, 1.0, -2.0]],
        "group_overrides": None,
    } | changes


def test_each_run_that_is_not_masked_is_a_turn_and_the_placeholder_is_no_log_probability(tmp_path: Path) -> None:
    found = turns(opened(write_lines(tmp_path / "run" / "groups.jsonl", [_group()])))
    assert [(turn["session_id"], turn["turn"]) for turn in found] == [
        ("run/groups.jsonl:1/0", 1),
        ("run/groups.jsonl:1/1", 1),
        ("run/groups.jsonl:1/1", 2),
    ]
    assert [turn["prompt_ids"] for turn in found] == [[1, 2], [1, 2], [1, 2, 5, 6]]
    assert [turn["completion_ids"] for turn in found] == [[3, 4], [5], [7]]
    assert [turn["sampled_logprobs"] for turn in found] == [[-0.5, -0.25], [-1.0], [-2.0]]
    assert [turn["reward"] for turn in found] == [1.0, -1.0, -1.0]
    assert {turn["group_id"] for turn in found} == {"run/groups.jsonl:1"}


def test_advantages_per_token_or_per_sequence_and_reference_scores(tmp_path: Path) -> None:
    group = _group(advantages=[[0, 0, 0.5, 0.75], 2.0], ref_logprobs=[[0, 0, -3, -4], [0, 0, -5, 0, -6]])
    found = scores(opened(write_lines(tmp_path / "groups.jsonl", [group])))
    assert [score["advantages"] for score in found] == [[0.5, 0.75], [2.0], [2.0]]
    assert [score["reference_logprobs"] for score in found] == [[-3.0, -4.0], [-5.0], [-6.0]]


def test_without_log_probabilities_there_are_none(tmp_path: Path) -> None:
    found = turns(opened(write_lines(tmp_path / "groups.jsonl", [_group(inference_logprobs=None)])))
    assert [turn["sampled_logprobs"] for turn in found] == [None] * 3


def test_broken_sequences_and_lines_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    lines = [_group(scores=[1.0]), _group(tokens=7), _group(masks=[None, [-100, -100, 5, -100, 7]])]
    log = opened(write_lines(tmp_path / "run" / "groups.jsonl", [_group(), *lines]))
    assert len(turns(log)) == 3 + 1 + 0 + 2
    assert [place for place, _ in unreadable(log)] == [
        "run/groups.jsonl:2 sequence 1",
        "run/groups.jsonl:3",
        "run/groups.jsonl:4 sequence 0",
    ]
