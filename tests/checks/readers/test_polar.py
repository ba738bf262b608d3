"""Polar: real traces, one turn per sampled run; and generated ones (from Polar's own layout) for what those lack."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.checks.readers.reading import opened, turns, unreadable, write_lines

FILES = ["h200-stitch__attempt4.quarantined", "h200-stitch__attempt5.accepted", "mac-fidelity__trace"]


def _real(shared_folder: Path, name: str) -> tuple[Path, dict[str, Any]]:
    path = shared_folder / "samples" / "polar" / f"{name}.json"
    whole = json.loads(path.read_text())
    whole = whole.get("session_result", whole)
    return path, whole["trajectory"]["traces"][0] if "trajectory" in whole else whole


@pytest.mark.parametrize("name", FILES)
def test_a_merged_trace_becomes_a_turn_for_each_sampled_run(shared_folder: Path, name: str) -> None:
    path, trace = _real(shared_folder, name)
    found = turns(opened(path))
    assert len(found) == len(trace["metadata"]["completion_metadata"]) == 2
    whole = trace["prompt_ids"] + trace["response_ids"]
    for turn in found:
        start, end = len(turn["prompt_ids"]), len(turn["prompt_ids"]) + len(turn["completion_ids"])
        assert turn["prompt_ids"] + turn["completion_ids"] == whole[:end], "every turn extends the one before"
        begin = start - len(trace["prompt_ids"])
        assert turn["sampled_logprobs"] == trace["response_logprobs"][begin : end - len(trace["prompt_ids"])]
        assert set(turn["loss_mask"]) == {1}
    assert sum(len(turn["completion_ids"]) for turn in found) == sum(trace["loss_mask"])
    assert found[-1]["prompt_ids"] + found[-1]["completion_ids"] == whole
    assert [turn["finish_reason"] for turn in found] == [None, "stop"]
    assert {turn["session_id"] for turn in found} == {trace["metadata"]["session_id"]}
    assert [(turn["turn"], turn["reward"], turn["group_id"]) for turn in found] == [(1, None, None), (2, None, None)]


def test_log_probabilities_of_exactly_zero_are_kept(shared_folder: Path) -> None:
    path, trace = _real(shared_folder, "h200-stitch__attempt5.accepted")
    zeros = sum(value == 0 for turn in turns(opened(path)) for value in turn["sampled_logprobs"])
    sampled = zip(trace["loss_mask"], trace["response_logprobs"], strict=True)
    assert zeros == sum(mask == 1 and value == 0 for mask, value in sampled) == 2119


def _trace(**changes: Any) -> dict[str, Any]:
    return {
        "prompt_ids": [1, 2],
        "response_ids": [3, 4, 5, 6],
        "loss_mask": [1, 1, 0, 1],
        "response_logprobs": [-0.5, 0.0, 0.0, -0.25],
        "finish_reason": "length",
        "reward": 1.0,
        "metadata": {"session_id": "s", "task_id": "t", "policy_version": 7},
    } | changes


def test_the_policy_version_covers_each_turn_and_a_reward_makes_a_group(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "traces.jsonl", [_trace()])
    first, second = turns(opened(path))
    assert first["weight_versions"] == [{"version": "7", "start": 0, "end": 2}]
    assert second["weight_versions"] == [{"version": "7", "start": 0, "end": 1}]
    assert (second["prompt_ids"], second["completion_ids"]) == ([1, 2, 3, 4, 5], [6])
    assert (second["finish_reason"], second["group_id"], second["reward"]) == ("length", "t", 1.0)


def test_each_completion_may_have_its_own_version(tmp_path: Path) -> None:
    about = {"session_id": "s", "completion_metadata": [{"policy_version": 7}, {"policy_version": "8"}]}
    found = turns(opened(write_lines(tmp_path / "traces.jsonl", [_trace(metadata=about)])))
    assert [turn["weight_versions"][0]["version"] for turn in found] == ["7", "8"]


def test_log_probabilities_may_be_objects(tmp_path: Path) -> None:
    objects = [{"token": "x", "token_id": i, "logprob": value} for i, value in enumerate([-0.5, 0.0, 0.0, -0.25])]
    found = turns(opened(write_lines(tmp_path / "traces.jsonl", [_trace(response_logprobs=objects)])))
    assert [turn["sampled_logprobs"] for turn in found] == [[-0.5, 0.0], [-0.25]]


def test_several_traces_of_a_session_are_numbered_on(tmp_path: Path) -> None:
    result = {"session_id": "s", "task_id": "t", "trajectory": {"traces": [_trace(), _trace(prompt_ids=[9])]}}
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    assert [(turn["session_id"], turn["turn"]) for turn in turns(opened(path))] == [("s", n) for n in (1, 2, 3, 4)]


def test_lists_of_another_length_stay_for_the_checks(tmp_path: Path) -> None:
    (turn,) = turns(opened(write_lines(tmp_path / "traces.jsonl", [_trace(response_logprobs=[-0.5, 0.0, 0.0])])))
    assert (turn["prompt_ids"], turn["completion_ids"]) == ([1, 2], [3, 4, 5, 6])
    assert (turn["sampled_logprobs"], turn["loss_mask"]) == ([-0.5, 0.0, 0.0], [1, 1, 0, 1])


def test_no_mask_is_not_made_up(tmp_path: Path) -> None:
    bare = {name: value for name, value in _trace().items() if name != "loss_mask"}
    path = write_lines(tmp_path / "traces.jsonl", [_trace(), bare])
    *_, turn = turns(opened(path))
    assert (turn["completion_ids"], turn["loss_mask"]) == ([3, 4, 5, 6], None)


def test_a_broken_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "traces.jsonl", [_trace(), _trace(response_ids=[3, -1, 5, 6]), "{", _trace()])
    log = opened(path)
    assert len(turns(log)) == 4
    assert [place for place, _ in unreadable(log)] == ["traces.jsonl:2", "traces.jsonl:3"]
