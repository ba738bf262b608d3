"""SWE-agent: steps with their requests, histories, and mini-swe-agent."""

import json
from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, turns, unreadable
from tests.checks.readers.seeds import SWE_RUN


def _write(path: Path, run: dict[str, Any]) -> Path:
    path.write_text(json.dumps(run, indent=2))
    return path


def test_steps_hold_what_was_asked(tmp_path: Path) -> None:
    first, second = turns(opened(_write(tmp_path / "django__django-1.traj", SWE_RUN)))
    assert (first["task_id"], first["session_id"]) == ("django__django-1", f"{tmp_path.name}/django__django-1.traj")
    assert json.loads(first["request"])["messages"] == [{"role": "user", "content": "fix"}]
    assert json.loads(first["response"]) == {"role": "assistant", "content": "I look"}
    assert (first["finish_reason"], second["finish_reason"]) == (None, "stop")
    # The run's counts are of both calls together.
    assert second["stated_prompt_tokens"] is None


def test_a_history_stands_in_for_steps_without_requests(tmp_path: Path) -> None:
    steps = [{**step, "query": None} for step in SWE_RUN["trajectory"]]
    history = [
        {"role": "system", "content": "s", "agent": "main"},
        {"role": "assistant", "content": "demo", "agent": "main", "is_demo": True},
        {"role": "user", "content": "fix", "agent": "main"},
        {"role": "assistant", "content": "I look", "agent": "main"},
    ]
    [turn] = turns(opened(_write(tmp_path / "x.traj", {**SWE_RUN, "trajectory": steps, "history": history})))
    assert [each["content"] for each in json.loads(turn["request"])["messages"]] == ["s", "demo", "fix"]
    # Of a run of one call its counts are the call's.
    assert (turn["stated_prompt_tokens"], turn["stated_completion_tokens"]) == (10, 5)


def test_mini_swe_agents_messages_are_a_history(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    run = {"info": {"exit_status": "Submitted"}, "messages": messages, "trajectory_format": "mini-swe-agent-1"}
    [turn] = turns(opened(_write(tmp_path / "x.traj.json", run)))
    assert (turn["task_id"], turn["finish_reason"]) == ("x", "stop")


def test_a_run_without_a_reply_is_counted(tmp_path: Path) -> None:
    log = opened(_write(tmp_path / "x.traj", {"history": [{"role": "user", "content": "q", "agent": "main"}]}))
    assert unreadable(log) == [("x.traj", "no reply of a model, expected trajectory, history or messages with some")]


def test_the_sample_has_five_replies(shared_folder: Path) -> None:
    found = turns(opened(shared_folder / "samples" / "swe-agent" / "function_calling_simple.traj"))
    assert [len(json.loads(turn["request"])["messages"]) for turn in found] == [2, 4, 6, 8, 10]
    assert json.loads(found[1]["request"])["messages"][3]["tool_call_id"] == "call_PbWErNIge3YTrli3fiVvmIid"
