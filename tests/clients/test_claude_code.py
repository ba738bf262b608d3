"""Claude Code behind the collector: it notices nothing, and every token is on record."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.npm_client import END, Ran, check_extends, installed, run, tool_call

VERSION = "2.1.197"
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def claude(tmp_path: Path, replies: list[dict[str, Any]], *more: list[str], **options: Any) -> Ran:
    """Runs `claude -p` in a fresh home, once and then with each list of further arguments."""
    command = str(installed("@anthropic-ai/claude-code", VERSION, "claude", after="install.cjs"))
    home = tmp_path / "home"
    home.mkdir()
    asked = [command, "-p", "Find the answer in note.txt", "--model", "model", "--allowedTools", "Read", "Bash"]
    env = {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_AUTH_TOKEN": "key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return run(tmp_path, [asked, *([command, *arguments] for arguments in more)], env, replies, **options)


def test_a_task_with_tools_and_a_later_question_is_one_branch(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    note = tmp_path / "work" / "note.txt"
    note.write_text("the answer is 42\n")
    replies = [
        {"text": f"<think>\nLook.\n</think>\n\nI will look.\n{tool_call('Read', file_path=str(note))}{END}"},
        {
            "text": "<think>\nTwo at once.\n</think>\n\n"
            f"{tool_call('Bash', command='echo one', description='Say one')}\n"
            f"{tool_call('Bash', command='echo two', description='Say two')}{END}"
        },
        {"text": f"<think>\nDone.\n</think>\n\nThe answer is 42 – naïve 🙂.{END}", "pause_s": 2.5},
        {"text": f"You are welcome.{END}"},
    ]
    follow_up = ["-p", "Thanks.", "--continue", "--model", "model", "--allowedTools", "Read", "Bash"]
    ran = claude(tmp_path, replies, follow_up)
    assert (ran.statuses, ran.outs) == ([0, 0], ["The answer is 42 – naïve 🙂.\n", "You are welcome.\n"]), ran.errs
    # No second, unstreamed request: nothing in the streams was wrong for it.
    assert (ran.requests, len(ran.turns), ran.retries) == (4, 4, [])
    check_extends(ran.turns)
    assert {turn["api"] for turn in ran.turns} == {"messages"}
    last = json.loads(ran.turns[-1]["request"])["messages"]
    results = [message["content"] for message in last if message["role"] == "tool"]
    assert "the answer is 42" in results[0]
    assert results[1:] == ["one", "two"]
    thoughts = [message.get("reasoning_content") for message in last if message["role"] == "assistant"]
    assert thoughts == ["Look.", "Two at once.", "Done."]
    assert "system" in [message["role"] for message in last[1:]]
    transcripts = [path.stem for path in (tmp_path / "home" / ".claude" / "projects").rglob("*.jsonl")]
    assert ran.turns[0]["session_id"] in transcripts


def test_a_stream_that_fails_is_asked_again_and_both_attempts_are_on_record(tmp_path: Path) -> None:
    replies = [
        {"text": f"The answer is 41.{END}", "fail_after": 3},
        {"text": f"The answer is 42.{END}"},
    ]
    ran = claude(tmp_path, replies)
    assert (ran.statuses, ran.outs) == ([0], ["The answer is 42.\n"]), ran.errs
    first, second = ran.turns
    assert (first["finish_reason"], first["trainable"], first["completion_ids"] != []) == ("error", False, True)
    assert (second["finish_reason"], second["trainable"]) == ("stop", True)
    assert second["session_id"] == first["session_id"]
    assert second["prompt_ids"] == first["prompt_ids"]
    # Claude Code asks for it whole the second time, and says nowhere that it is the second time.
    assert ran.retries == [(second["turn_id"], first["turn_id"])]


def test_a_reply_cut_by_length_is_shown(tmp_path: Path) -> None:
    ran = claude(tmp_path, [{"text": "The answer is", "length": True}, {"text": f" 42.{END}"}])
    assert ran.turns[0]["finish_reason"] == "length"
    assert ran.statuses == [0], ran.errs
    assert "42." in ran.outs[0]


def test_a_prompt_that_is_too_long_is_known_as_such(tmp_path: Path) -> None:
    ran = claude(tmp_path, [{"text": END}], context_tokens=1000)
    assert (ran.statuses, ran.requests) == ([1], 0), ran.errs
    assert ran.outs[0].startswith("Prompt is too long")
    assert [(turn["finish_reason"], turn["trainable"]) for turn in ran.turns] == [("error", False)]
