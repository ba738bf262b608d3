"""Claude Code sessions: the tree, replies split over lines, sub-agents and compactions."""

import json
from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, rows, turns, unreadable, write_lines
from tests.checks.readers.seeds import CLAUDE_LINES, claude_line


def _read(tmp_path: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return turns(opened(write_lines(tmp_path / "S.jsonl", lines)))


def _messages(turn: dict[str, Any]) -> list[dict[str, Any]]:
    return json.loads(turn["request"])["messages"]


def _reply(uuid: str, parent: str | None, said: str, **fields: Any) -> dict[str, Any]:
    message = {"id": f"m-{uuid}", "model": "claude", "stop_reason": "end_turn", **fields.pop("message", {})}
    return claude_line("assistant", uuid, parent, [{"type": "text", "text": said}], message=message, **fields)


def test_lines_of_one_reply_are_one_turn_with_the_usage_of_the_last(tmp_path: Path) -> None:
    first, second = _read(tmp_path, CLAUDE_LINES)
    # 3 new + 10 written to the cache + 100 read from it.
    assert (first["stated_prompt_tokens"], first["stated_completion_tokens"], first["cached_tokens"]) == (113, 20, 100)
    assert (first["turn"], first["finish_reason"], first["base_model"]) == (1, "stop", "claude")
    assert first["prompt_ids"] is None
    assert first["completion_ids"] is None
    assert first["api"] == "import:claude-code"
    assert _messages(first) == [{"role": "user", "content": "do it"}]
    said = json.loads(first["response"])
    assert said["content"] == "I will"
    assert said["tool_calls"] == [
        {"type": "function", "id": "t1", "function": {"name": "Bash", "arguments": {"command": "ls"}}}
    ]
    assert _messages(second) == [
        {"role": "user", "content": "do it"},
        said,
        {"role": "tool", "tool_call_id": "t1", "content": "files"},
    ]


def test_results_beside_the_path_stand_after_their_calls(tmp_path: Path) -> None:
    def call(uuid: str, parent: str, tool: str) -> dict[str, Any]:
        content = [{"type": "tool_use", "id": tool, "name": "Read", "input": {}}]
        return claude_line("assistant", uuid, parent, content, message={"id": "m", "model": "c"})

    def result(uuid: str, parent: str, tool: str) -> dict[str, Any]:
        return claude_line("user", uuid, parent, [{"type": "tool_result", "tool_use_id": tool, "content": tool}])

    found = _read(
        tmp_path,
        [
            claude_line("user", "u", None, "q"),
            call("a1", "u", "t1"),
            result("r1", "a1", "t1"),
            call("a2", "a1", "t2"),
            result("r2", "a2", "t2"),
            _reply("b", "r2", "done"),
        ],
    )
    assert [message["role"] for message in _messages(found[1])] == ["user", "assistant", "tool", "tool"]
    assert [message.get("tool_call_id") for message in _messages(found[1])[2:]] == ["t1", "t2"]


def test_a_rewound_branch_has_only_its_own_path(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        [
            claude_line("user", "u1", None, "q"),
            _reply("a1", "u1", "first"),
            claude_line("user", "u2", "a1", "wrong"),
            _reply("a2", "u2", "second"),
            claude_line("user", "u3", "a1", "right"),
            _reply("a3", "u3", "third"),
        ],
    )
    assert [message["content"] for message in _messages(found[2])] == ["q", "first", "right"]
    assert [turn["turn"] for turn in found] == [1, 2, 3]


def test_a_subagent_is_a_session_of_its_own(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        [
            claude_line("user", "u1", None, "q"),
            claude_line("user", "s1", None, "sub", isSidechain=True),
            _reply("s2", "s1", "sub reply", isSidechain=True),
            _reply("a1", "u1", "main reply"),
            claude_line("user", "x1", None, "other", isSidechain=True, agentId="7f"),
            _reply("x2", "x1", "other reply", isSidechain=True, agentId="7f"),
        ],
    )
    assert [turn["session_id"] for turn in found] == ["S/agent-s1", "S", "S/agent-7f"]
    assert [turn["turn"] for turn in found] == [1, 1, 1]


def test_a_compaction_is_an_event_at_the_next_turn_and_said_once(tmp_path: Path) -> None:
    lines = [
        claude_line("user", "u1", None, "q"),
        _reply("a1", "u1", "r"),
        {
            **claude_line("system", "c1", None, None, subtype="compact_boundary"),
            "compactMetadata": {"trigger": "auto", "preTokens": 1000},
        },
        claude_line("user", "u2", "c1", "summary of it all", isCompactSummary=True),
        _reply("a2", "u2", "r2"),
    ]
    log = opened(write_lines(tmp_path / "S.jsonl", lines))
    found = turns(log)
    [event] = rows(log, "events")
    assert (event["kind"], event["session_id"], event["turn"]) == ("compaction", "S", 2)
    assert json.loads(event["detail"])["preTokens"] == 1000
    assert [message["content"] for message in _messages(found[1])] == ["summary of it all"]


def test_an_api_error_is_an_incomplete_turn_and_other_synthetic_lines_are_none(tmp_path: Path) -> None:
    synthetic = {"model": "<synthetic>"}
    found = _read(
        tmp_path,
        [
            claude_line("user", "u1", None, "q"),
            _reply("a1", "u1", "API Error", isApiErrorMessage=True, message=synthetic),
            _reply("a2", "a1", "No response requested.", message=synthetic),
        ],
    )
    assert [(turn["finish_reason"], turn["complete"], turn["base_model"]) for turn in found] == [("error", False, None)]


def test_a_resumed_session_does_not_count_what_it_repeats(tmp_path: Path) -> None:
    write_lines(tmp_path / "1.jsonl", CLAUDE_LINES)
    again = [{**line, "sessionId": "S2"} for line in CLAUDE_LINES]
    write_lines(tmp_path / "2.jsonl", [*again, claude_line("user", "u9", "a2", "more"), _reply("a9", "u9", "ok")])
    found = turns(opened(tmp_path))
    assert [(turn["session_id"], turn["turn"]) for turn in found] == [("S", 1), ("S", 2), ("S", 3)]


def test_a_loop_of_parents_ends(tmp_path: Path) -> None:
    found = _read(tmp_path, [claude_line("user", "u", "a", "q"), _reply("a", "u", "r")])
    assert len(found) == 1


def test_a_summary_is_a_title_and_no_compaction(tmp_path: Path) -> None:
    title = {"type": "summary", "summary": "About files", "leafUuid": "a2"}
    log = opened(write_lines(tmp_path / "S.jsonl", [title, *CLAUDE_LINES]))
    assert unreadable(log) == []
    assert [(event["kind"], event["text"]) for event in rows(log, "events")] == [("summary", "About files")]


def test_the_sample_has_three_replies(shared_folder: Path) -> None:
    found = turns(opened(shared_folder / "samples" / "claude-code"))
    assert [turn["turn"] for turn in found] == [1, 2, 3]
    assert [len(_messages(turn)) for turn in found] == [1, 3, 6]
    assert found[2]["started_at"].isoformat() == "2025-12-24T10:01:00+00:00"
