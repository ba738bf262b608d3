"""Codex behind the collector: it notices nothing, and every token is on record."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.npm_client import END, Ran, check_extends, installed, run, tool_call

VERSION = "0.171.0"
PROVIDER = (
    'model_providers.roundhouse={name="roundhouse", base_url="{url}/v1", wire_api="responses", env_key="KEY", '
    "supports_websockets=false, request_max_retries=1, stream_max_retries=1}"
)
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def codex(tmp_path: Path, replies: list[dict[str, Any]], *more: list[str], **given: Any) -> Ran:
    """Runs `codex exec` in a fresh home, once and then with each list of further arguments."""
    command = str(installed("@openai/codex", VERSION, "codex"))
    home = tmp_path / "home"
    (home / ".codex").mkdir(parents=True)
    settings = ["-c", 'model_provider="roundhouse"', "-c", 'model="model"', "-c", PROVIDER]
    options = ["--skip-git-repo-check", *settings]
    asked = [command, "exec", "--sandbox", "danger-full-access", *options, "Find the answer in note.txt"]
    env = {"HOME": str(home), "KEY": "key", "RUST_LOG": "error,codex_core=warn"}
    return run(tmp_path, [asked, *([command, "exec", *words, *options] for words in more)], env, replies, **given)


def test_a_task_with_tools_and_a_later_question_is_one_branch(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "note.txt").write_text("the answer is 42\n")
    replies = [
        {"text": f"<think>\nLook.\n</think>\n\nI will look.\n{tool_call('exec_command', cmd='cat note.txt')}{END}"},
        {
            "text": "<think>\nTwo at once.\n</think>\n\n"
            f"{tool_call('exec_command', cmd='echo one')}\n{tool_call('exec_command', cmd='echo two')}{END}"
        },
        {"text": f"<think>\nDone.\n</think>\n\nThe answer is 42 – naïve 🙂.{END}", "pause_s": 2.5},
        {"text": f"You are welcome.{END}"},
    ]
    ran = codex(tmp_path, replies, ["resume", "--last", "Thanks."])
    assert (ran.statuses, ran.outs) == ([0, 0], ["The answer is 42 – naïve 🙂.\n", "You are welcome.\n"]), ran.errs
    assert "without active item" not in "".join(ran.errs)
    # Not one turn was sent again: every stream had its end.
    assert ran.requests == len(ran.turns) == len(replies)
    check_extends(ran.turns)
    assert {turn["api"] for turn in ran.turns} == {"responses"}
    last = json.loads(ran.turns[-1]["request"])["messages"]
    results = [message["content"] for message in last if message["role"] == "tool"]
    assert ["the answer is 42" in results[0], "one" in results[1], "two" in results[2]] == [True] * 3
    thoughts = [message.get("reasoning_content") for message in last if message["role"] == "assistant"]
    assert thoughts == ["Look.", "Two at once.", "Done."]
    assert f"session id: {ran.turns[0]['session_id']}" in ran.errs[0]


def test_a_stream_that_fails_is_sent_again_and_both_attempts_are_on_record(tmp_path: Path) -> None:
    replies = [
        {"text": f"The answer is 41.{END}", "fail_after": 3},
        {"text": f"The answer is 42.{END}"},
    ]
    ran = codex(tmp_path, replies)
    assert (ran.statuses, ran.outs) == ([0], ["The answer is 42.\n"]), ran.errs
    first, second = ran.turns
    assert (first["finish_reason"], first["trainable"], first["completion_ids"] != []) == ("error", False, True)
    assert (second["finish_reason"], second["trainable"]) == ("stop", True)
    assert second["session_id"] == first["session_id"]
    assert second["prompt_ids"] == first["prompt_ids"]


def test_a_prompt_that_is_too_long_is_known_as_such(tmp_path: Path) -> None:
    ran = codex(tmp_path, [{"text": END}], context_tokens=1000)
    assert (ran.statuses, ran.requests) == ([1], 0)
    assert "ran out of room in the model's context window" in ran.errs[0]
    assert {(turn["finish_reason"], turn["trainable"]) for turn in ran.turns} == {("error", False)}
