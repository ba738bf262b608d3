"""Marin: rollouts generated from the definition of its rollout engine's records."""

from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, turns, unreadable, write_lines


def _step(prompt: list[int], response: list[int], **changes: Any) -> dict[str, Any]:
    turn = {
        "message": {"role": "assistant", "content": "x"},
        "prompt_token_ids": prompt,
        "response_token_ids": response,
        "logprobs": [-0.5] * len(response),
        "stop_reason": "stop",
    }
    return {"turn": turn | changes, "transition": {"done": False, "observations": [], "token_ids": [], "metrics": {}}}


def _rollout(*steps: dict[str, Any], run_id: str = "r") -> dict[str, Any]:
    return {"run_id": run_id, "conversations": [{"messages": [], "steps": list(steps)}], "stop_reason": "done"}


def test_each_step_is_a_turn(tmp_path: Path) -> None:
    cut = _step([1, 2, 3, 9], [4, 5], stop_reason="length")
    cut["transition"]["metrics"] = {"advance_incomplete": True}
    log = opened(
        write_lines(
            tmp_path / "rollouts.jsonl", [_rollout(_step([1, 2], [3]), cut), _rollout(_step([1], [2]), run_id="q")]
        )
    )
    found = turns(log)
    assert [(turn["session_id"], turn["turn"]) for turn in found] == [("r/0", 1), ("r/0", 2), ("q/0", 1)]
    assert [turn["prompt_ids"] for turn in found] == [[1, 2], [1, 2, 3, 9], [1]]
    assert [turn["completion_ids"] for turn in found] == [[3], [4, 5], [2]]
    assert [turn["sampled_logprobs"] for turn in found] == [[-0.5], [-0.5, -0.5], [-0.5]]
    assert [turn["finish_reason"] for turn in found] == ["stop", "length", "stop"]
    assert [turn["untrainable_reason"] for turn in found] == [None, "advance_incomplete", None]


def test_messages_mode_has_no_log_probabilities(tmp_path: Path) -> None:
    (turn,) = turns(opened(write_lines(tmp_path / "rollouts.jsonl", [_rollout(_step([1], [2], logprobs=None))])))
    assert (turn["completion_ids"], turn["sampled_logprobs"]) == ([2], None)


def test_a_broken_rollout_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    lines = [_rollout(_step([1], [2])), _rollout(_step([1], "x")), _rollout(_step([1], [3]), run_id="q")]  # pyright: ignore[reportArgumentType]
    log = opened(write_lines(tmp_path / "rollouts.jsonl", lines))
    assert [turn["completion_ids"] for turn in turns(log)] == [[2], [3]]
    assert [place for place, _ in unreadable(log)] == ["rollouts.jsonl:2"]
