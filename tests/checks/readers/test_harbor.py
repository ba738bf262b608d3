"""Harbor: a hand-made ATIF sample of others, and trials generated from Harbor's own definition."""

import json
from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, turns, unreadable


def test_steps_of_the_agent_are_turns_and_a_sub_agent_is_its_own_session(shared_folder: Path) -> None:
    found = turns(opened(shared_folder / "samples/harbor-atif/rolloutviz__harbor-atif.json"))
    parent = "synthetic-checkout-session/checkout-parent"
    assert [(turn["session_id"], turn["turn"]) for turn in found] == [
        (parent, 1),
        (parent, 2),
        (f"{parent}/payment-check-subagent", 1),
    ]
    assert [turn["stated_completion_tokens"] for turn in found] == [24, 9, None]
    assert [turn["stated_prompt_tokens"] for turn in found] == [128, 166, None]
    assert [json.loads(turn["response"])["content"] for turn in found][1:] == [
        "Checkout completed.",
        "Saved payment method is valid.",
    ]
    assert found[1]["finished_at"].isoformat() == "2026-01-01T00:00:02+00:00"
    assert (found[0]["base_model"], found[0]["prompt_ids"], found[0]["reward"]) == ("example-model", None, None)


def _trajectory(**changes: Any) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": "q"},
        {"step_id": 2, "source": "agent", "message": "old", "is_copied_context": True},
        {"step_id": 3, "source": "agent", "message": "rule", "llm_call_count": 0},
        {
            "step_id": 4,
            "source": "agent",
            "message": "a",
            "metrics": {
                "prompt_tokens": 2,
                "completion_tokens": 2,
                "cached_tokens": 1,
                "prompt_token_ids": [1, 2],
                "completion_token_ids": [3, 4],
                "logprobs": [-0.5, -0.25],
            },
        },
    ]
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "s",
        "agent": {"name": "x", "version": "1"},
        "steps": steps,
    } | changes


def _result(**changes: Any) -> dict[str, Any]:
    return {
        "task_name": "fix-git",
        "trial_name": "fix-git__abc",
        "trial_uri": "file:///jobs/fix-git__abc",
        "agent_info": {"name": "terminus-2", "model_info": {"name": "m"}},
        "agent_result": {"rollout_details": None},
        "verifier_result": {"rewards": {"reward": 1.0, "style": 0.2}},
        "exception_info": None,
    } | changes


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1))


def test_a_trial_s_reward_stands_on_the_turns_of_its_trajectory(tmp_path: Path) -> None:
    _write(tmp_path / "fix-git__abc/result.json", _result())
    _write(tmp_path / "fix-git__abc/agent/trajectory.json", _trajectory())
    (turn,) = turns(opened(tmp_path))
    assert (turn["prompt_ids"], turn["completion_ids"], turn["sampled_logprobs"]) == ([1, 2], [3, 4], [-0.5, -0.25])
    assert (turn["reward"], turn["task_id"], turn["group_id"]) == (1.0, "fix-git", "fix-git/terminus-2/m")
    assert (turn["session_id"], turn["cached_tokens"]) == ("s/trajectory", 1)


def test_rollout_details_are_the_exact_record_and_the_trajectory_is_not_read_twice(tmp_path: Path) -> None:
    details = [
        {
            "prompt_token_ids": [[1, 2], [1, 2, 3, 9]],
            "completion_token_ids": [[3], [4, 5]],
            "logprobs": [[-0.5], [-0.25, 0.0]],
        },
        {"prompt_token_ids": [[7]], "completion_token_ids": [[8]], "logprobs": [[-1.0]]},
    ]
    _write(tmp_path / "t/result.json", _result(agent_result={"rollout_details": details}))
    _write(tmp_path / "t/agent/trajectory.json", _trajectory())
    found = turns(opened(tmp_path))
    assert [(turn["session_id"], turn["turn"]) for turn in found] == [
        ("fix-git__abc/chat0", 1),
        ("fix-git__abc/chat0", 2),
        ("fix-git__abc/chat1", 1),
    ]
    assert [turn["prompt_ids"] for turn in found] == [[1, 2], [1, 2, 3, 9], [7]]
    assert [turn["completion_ids"] for turn in found] == [[3], [4, 5], [8]]
    assert [turn["sampled_logprobs"] for turn in found] == [[-0.5], [-0.25, 0.0], [-1.0]]
    assert {turn["reward"] for turn in found} == {1.0}


def test_a_trial_without_anything_but_its_outcome_is_one_turn(tmp_path: Path) -> None:
    _write(tmp_path / "t/result.json", _result(exception_info={"type": "Timeout"}, verifier_result=None))
    (turn,) = turns(opened(tmp_path))
    assert (turn["session_id"], turn["reward"], turn["group_id"]) == ("fix-git__abc", None, None)
    assert (turn["finish_reason"], turn["completion_ids"]) == ("error", None)


def test_two_trials_do_not_share_what_they_say(tmp_path: Path) -> None:
    for name, reward in (("a", 1.0), ("b", 0.0)):
        result = _result(trial_name=name, verifier_result={"rewards": {"pass": reward}})
        _write(tmp_path / name / "result.json", result)
        _write(tmp_path / name / "agent/trajectory.json", _trajectory(session_id=name))
    assert [(turn["session_id"], turn["reward"]) for turn in turns(opened(tmp_path))] == [
        ("a/trajectory", 1.0),
        ("b/trajectory", 0.0),
    ]


def test_a_wrong_type_is_named(tmp_path: Path) -> None:
    broken = _trajectory()
    broken["steps"][3]["metrics"]["completion_token_ids"] = ["x"]
    _write(tmp_path / "trajectory.json", broken)
    ((place, reason),) = unreadable(opened(tmp_path / "trajectory.json"))
    assert place.endswith("trajectory.json")
    assert reason.startswith("completion_token_ids: Expected `int`, got `str`")
