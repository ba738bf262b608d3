"""Codex rollouts: replies, usage, compactions, rollbacks, and the old form."""

import json
from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, rows, turns, write_lines
from tests.checks.readers.seeds import CODEX_LINES, codex_zst


def _item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-08-01T10:01:00Z", "type": "response_item", "payload": payload}


def _said(role: str, text: str) -> dict[str, Any]:
    return _item(type="message", role=role, content=[{"type": "output_text", "text": text}])


def _event(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-08-01T10:02:00Z", "type": "event_msg", "payload": payload}


def _read(tmp_path: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return turns(opened(write_lines(tmp_path / "rollout-c.jsonl", lines)))


def _contents(turn: dict[str, Any]) -> list[str]:
    return [message["content"] for message in json.loads(turn["request"])["messages"]]


def test_each_reply_is_a_turn_with_the_usage_said_after_it(tmp_path: Path) -> None:
    first, second = _read(tmp_path, CODEX_LINES)
    assert (first["session_id"], first["turn"], first["base_model"]) == ("C", 1, "gpt")
    assert (first["stated_prompt_tokens"], first["stated_completion_tokens"], first["cached_tokens"]) == (100, 10, 64)
    assert first["prompt_ids"] is None
    assert _contents(first) == ["q"]
    assert json.loads(first["response"])["tool_calls"][0]["function"]["name"] == "shell"
    assert second["stated_prompt_tokens"] is None
    assert [message["role"] for message in json.loads(second["request"])["messages"]] == ["user", "assistant", "tool"]
    assert (second["started_at"].second, second["finished_at"].second) == (4, 6)


def test_a_count_that_is_said_again_is_not_the_next_reply(tmp_path: Path) -> None:
    count = CODEX_LINES[4]
    found = _read(tmp_path, [*CODEX_LINES[:6], count, CODEX_LINES[6], count])
    assert [turn["stated_prompt_tokens"] for turn in found] == [100, None]


def test_a_count_after_the_tools_output_is_still_the_replys(tmp_path: Path) -> None:
    lines = [*CODEX_LINES[:4], CODEX_LINES[5], CODEX_LINES[4], CODEX_LINES[6]]
    assert [turn["stated_prompt_tokens"] for turn in _read(tmp_path, lines)] == [100, None]


def test_a_compressed_rollout_of_two_frames_is_read_whole(tmp_path: Path) -> None:
    assert len(turns(opened(codex_zst(tmp_path)))) == 2


def test_a_compaction_replaces_the_messages_and_is_an_event(tmp_path: Path) -> None:
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "summary"}]}
    compacted = {"timestamp": "2026-08-01T10:01:00Z", "type": "compacted", "payload": {"message": "summary"}}
    known = {**compacted, "payload": {"message": "", "replacement_history": [kept]}}
    after = [_said("user", "go on"), _said("assistant", "ok")]
    log = opened(write_lines(tmp_path / "known" / "rollout-c.jsonl", [*CODEX_LINES, known, *after]))
    assert _contents(turns(log)[2]) == ["summary", "go on"]
    assert [(e["kind"], e["session_id"], e["turn"]) for e in rows(log, "events")] == [("compaction", "C", 3)]
    # What stands in the place of the messages is not said: no messages are.
    log = opened(write_lines(tmp_path / "unknown" / "rollout-c.jsonl", [*CODEX_LINES, compacted, *after]))
    assert turns(log)[2]["request"] is None


def test_a_rollback_leaves_the_messages_unknown(tmp_path: Path) -> None:
    lines = [*CODEX_LINES, _event(type="thread_rolled_back", num_turns=1), _said("user", "x"), _said("assistant", "y")]
    log = opened(write_lines(tmp_path / "rollout-c.jsonl", lines))
    assert turns(log)[2]["request"] is None
    assert [(e["kind"], e["turn"]) for e in rows(log, "events")] == [("rollback", 3)]


def test_an_aborted_reply_says_so(tmp_path: Path) -> None:
    lines = [*CODEX_LINES[:3], _said("assistant", "half"), _event(type="turn_aborted", reason="interrupted")]
    [turn] = _read(tmp_path, lines)
    assert (turn["finish_reason"], turn["complete"]) == ("abort", False)


def test_a_fork_keeps_its_own_name(tmp_path: Path) -> None:
    other = {"timestamp": "2026-08-01T09:00:00Z", "type": "session_meta", "payload": {"id": "D"}}
    assert {turn["session_id"] for turn in _read(tmp_path, [CODEX_LINES[0], other, *CODEX_LINES[1:]])} == {"C"}


def test_the_old_form_has_items_without_a_payload(tmp_path: Path) -> None:
    lines = [
        {"id": "old", "timestamp": "2025-06-01T10:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        *(line["payload"] for line in CODEX_LINES if line["type"] == "response_item"),
    ]
    found = _read(tmp_path, lines)
    assert [turn["session_id"] for turn in found] == ["old", "old"]
    assert _contents(found[0]) == ["q"]
