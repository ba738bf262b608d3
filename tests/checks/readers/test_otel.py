"""OpenTelemetry spans: the conventions, the shapes of an export, and which spans are model calls."""

import json
from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, rows, turns, write_lines
from tests.checks.readers.seeds import OPENINFERENCE_LINES, OTLP, phoenix_parquet


def _span(**attributes: Any) -> dict[str, Any]:
    return {"name": "chat", "trace_id": "t", "span_id": "s", "attributes": attributes}


def _one(tmp_path: Path, span: dict[str, Any]) -> dict[str, Any]:
    [turn] = turns(opened(write_lines(tmp_path / "spans.jsonl", [span])))
    return turn


def test_a_chat_span_of_otlp_is_a_turn_and_a_tool_span_is_none(tmp_path: Path) -> None:
    path = tmp_path / "otlp.json"
    path.write_text(json.dumps(OTLP))
    log = opened(path)
    [turn] = turns(log)
    assert (turn["session_id"], turn["turn_id"], turn["finish_reason"]) == ("conv", "s1", "length")
    assert (turn["stated_prompt_tokens"], turn["stated_completion_tokens"], turn["temperature"]) == (12, 3, 0.5)
    assert (turn["finished_at"] - turn["started_at"]).total_seconds() == 1.5
    assert json.loads(turn["request"]) == {"messages": [{"role": "user", "content": "q"}]}
    assert json.loads(turn["response"])["tool_calls"] == [
        {"type": "function", "id": "c", "function": {"name": "f", "arguments": {"x": 1}}}
    ]
    [judged] = rows(log, "feedback")
    assert (judged["turn_id"], judged["kind"], judged["value"]) == ("s1", "judge", 0.75)


def test_lines_of_otlp_are_read_as_one_document_is(tmp_path: Path) -> None:
    assert len(turns(opened(write_lines(tmp_path / "otlp.jsonl", [OTLP, OTLP])))) == 2


def test_openinference_in_lines_and_in_parquet(tmp_path: Path) -> None:
    turn = _one(tmp_path, OPENINFERENCE_LINES[0])
    assert (turn["session_id"], turn["base_model"], turn["stated_prompt_tokens"]) == ("sess", "m", 5)
    assert json.loads(turn["request"])["messages"] == [{"role": "user", "content": "q"}]
    assert json.loads(turn["response"])["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    [turn] = turns(opened(phoenix_parquet(tmp_path)))
    assert (turn["session_id"], turn["turn_id"]) == ("t", "s")
    assert json.loads(turn["response"]) == {"role": "assistant", "content": "a"}


def test_old_names_are_known(tmp_path: Path) -> None:
    turn = _one(
        tmp_path,
        _span(
            **{
                "gen_ai.prompt.0.role": "system",
                "gen_ai.prompt.0.content": "s",
                "gen_ai.prompt.10.role": "assistant",
                "gen_ai.prompt.10.content": "later",
                "gen_ai.prompt.2.role": "user",
                "gen_ai.prompt.2.content": "q",
                "gen_ai.completion.0.content": "a",
                "gen_ai.completion.0.finish_reason": "max_tokens",
                "gen_ai.usage.prompt_tokens": 3,
                "gen_ai.usage.completion_tokens": 1,
            }
        ),
    )
    # In the order of their numbers, not of their names.
    assert [each["content"] for each in json.loads(turn["request"])["messages"]] == ["s", "q", "later"]
    assert (turn["stated_prompt_tokens"], turn["stated_completion_tokens"]) == (3, 1)
    assert turn["finish_reason"] == "length"


def test_one_attribute_may_hold_text_and_no_messages(tmp_path: Path) -> None:
    turn = _one(tmp_path, _span(**{"gen_ai.prompt": "once upon", "gen_ai.completion": " a time"}))
    assert (turn["prompt_text"], turn["completion_text"], turn["request"]) == ("once upon", " a time", None)


def test_system_instructions_come_first(tmp_path: Path) -> None:
    system = json.dumps([{"type": "text", "content": "be brief"}])
    asked = json.dumps([{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "result": "ok"}]}])
    turn = _one(tmp_path, _span(**{"gen_ai.system_instructions": system, "gen_ai.input.messages": asked}))
    assert json.loads(turn["request"])["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "tool", "content": "ok", "tool_call_id": "c"},
    ]


def test_agents_and_chains_are_no_model_calls(tmp_path: Path) -> None:
    agent = _span(**{"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 9})
    chain = _span(**{"openinference.span.kind": "CHAIN", "llm.token_count.prompt": 9})
    call = _span(**{"gen_ai.operation.name": "chat"})
    assert len(turns(opened(write_lines(tmp_path / "spans.jsonl", [agent, chain, call])))) == 1


def test_a_failed_span_is_an_incomplete_turn(tmp_path: Path) -> None:
    turn = _one(tmp_path, {**_span(**{"gen_ai.operation.name": "chat"}), "status": {"code": 2}})
    assert (turn["finish_reason"], turn["complete"]) == ("error", False)
