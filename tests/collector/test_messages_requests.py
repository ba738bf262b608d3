"""Requests of the Messages wire: what of them reaches the engine and the record, and what is refused."""

import json
from typing import Any

import anthropic
import pytest

from collector.rendering.renderer import Renderer
from collector.shapes.messages_input import session_of
from tests.collector.loopback import post, serve
from tests.collector.sampled_text import replies

END = "<|im_end|>"
HI: list[Any] = [{"role": "user", "content": "Hi"}]
TOOLS: list[Any] = [
    {"name": "get_weather", "description": "Weather.", "input_schema": {"type": "object", "properties": {}}}
]
ASK = {"model": "model", "max_tokens": 100, "messages": HI}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 1.5}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"stop_sequences": ["x"] * 17}, "stop_sequences"),
        ({"messages": []}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "tool_use_id"),
        ({"messages": [*HI, {"role": "assistant", "content": [{"type": "tool_use"}]}]}, "messages[1].content[0]"),
        ({"messages": [*HI, {"role": "assistant", "content": "So"}]}, "prefill"),
        ({"system": [{"type": "image"}]}, "system[0]"),
        ({"tools": [{"name": "f"}]}, "tools[0]"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool", "name": "f"}}, "tool_choice"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format"),
        ({"output_format": {"type": "json_schema"}}, "output_format"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(small: Renderer, change: dict[str, Any], param: str) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        status, _, answer = await post(served, "/v1/messages", {**ASK, **change})
        assert (status, answer["type"], answer["error"]["type"]) == (400, "error", "invalid_request_error")
        assert param in answer["error"]["message"]
        assert served.engine.requests == []


async def test_sampling_is_mapped_and_unknown_fields_and_betas_are_accepted(small: Renderer) -> None:
    asked = {
        **ASK, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop_sequences": ["x"], "cache_control": {"type": "x"},
        "context_management": {"edits": []}, "service_tier": "auto", "new_field": {"a": 1},
    }  # fmt: skip
    async with serve(small, replies(small, f"a{END}")) as served:
        status, _, _ = await post(served, "/v1/messages?beta=true", asked, **{"anthropic-beta": "new-2027-01-01"})
        await post(served, "/v1/messages", ASK)
        full, plain = served.journal.turns
        sent = served.engine.requests[0].sampling_params
    assert status == 200
    assert (full.temperature, full.top_p, full.top_k, full.max_tokens) == (0.5, 0.9, 3, 100)
    assert (sent.temperature, sent.top_p, sent.top_k, sent.stop, sent.max_new_tokens) == (0.5, 0.9, 3, ["x"], 100)
    assert (plain.temperature, plain.top_p, plain.top_k, plain.trainable) == (1.0, 1.0, -1, True)


@pytest.mark.parametrize(("kind", "opens"), [("disabled", False), ("adaptive", True), (None, True)])
async def test_thinking_is_turned_off_where_the_request_says_so(small: Renderer, kind: str | None, opens: bool) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        await post(served, "/v1/messages", {**ASK, **({"thinking": {"type": kind}} if kind else {})})
        prompt = small.tokenizer.decode(served.journal.turns[0].prompt_ids)
    # Qwen3's template writes an empty block of thinking when it is told not to think.
    assert prompt.endswith("<think>\n\n</think>\n\n") is not opens


async def test_tools_that_the_client_does_not_run_are_left_out_and_named(small: Renderer) -> None:
    tools = [*TOOLS, {"type": "web_search_20250305", "name": "web_search"}, {**TOOLS[0], "type": "custom", "name": "f"}]
    async with serve(small, replies(small, f"a{END}")) as served:
        status, headers, _ = await post(served, "/v1/messages", {**ASK, "tools": tools})
        turn = served.journal.turns[0]
    assert (status, headers["x-roundhouse-tools-left-out"]) == (200, "web_search")
    assert [tool["function"]["name"] for tool in turn.request.tools] == ["get_weather", "f"]
    assert turn.request.tools[0]["function"]["parameters"] == TOOLS[0]["input_schema"]


async def test_a_session_is_named_by_the_header_or_else_by_the_body(small: Renderer) -> None:
    named = {**ASK, "metadata": {"user_id": json.dumps({"device_id": "d", "session_id": "from-body"})}}
    async with serve(small, replies(small, f"a{END}")) as served:
        await post(served, "/v1/messages", named)
        await post(served, "/v1/messages", named, **{"x-claude-code-session-id": "from-header"})
        assert [turn.session_id for turn in served.journal.turns] == ["from-body", "from-header"]


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        ("user_ab12_session_x", None),
        ("user_ab12_account_cd_session_0b3f1c2a-7f0e-4a6b-9d57-4a1f9e6f1d11", "0b3f1c2a-7f0e-4a6b-9d57-4a1f9e6f1d11"),
        ("alice@example.org", None),
        ('{"session_id": 5}', None),
        ('{"session_id": "' + "x" * 300 + '"}', None),
        ("{not json", None),
        ("[" * 100_000, None),
        (None, None),
    ],
)
def test_a_user_id_names_a_session_only_in_claude_codes_own_forms(user_id: str | None, session: str | None) -> None:
    assert session_of(user_id) == session


async def test_tokens_are_counted_as_the_next_call_has_them_and_nothing_is_sampled(small: Renderer) -> None:
    named = {"x-claude-code-session-id": "s"}
    engine = replies(small, f"<think>\nWell.\n</think>\n\nHello.{END}", f"Yes.{END}")
    async with (
        serve(small, engine) as served,
        anthropic.AsyncAnthropic(base_url=served.url, api_key="any", max_retries=0) as client,
    ):
        count = client.messages.count_tokens
        tools = {"tools": TOOLS, "system": "You help."}
        fresh = await count(model="model", messages=HI, extra_headers=named, **tools)  # type: ignore[arg-type]
        first = await client.messages.create(**ASK, extra_headers=named, **tools)  # type: ignore[arg-type]
        said = [block.model_dump() for block in first.content]
        longer: list[Any] = [*HI, {"role": "assistant", "content": said}, {"role": "user", "content": "Go on."}]
        more = await count(model="model", messages=longer, extra_headers=named, **tools)  # type: ignore[arg-type]
        again = await count(model="model", messages=longer, extra_headers=named, **tools)  # type: ignore[arg-type]
        alone = await count(model="model", messages=longer, **tools)  # type: ignore[arg-type]
        await client.messages.create(**{**ASK, "messages": longer}, extra_headers=named, **tools)  # type: ignore[arg-type]
        turns = served.journal.turns
    assert [fresh.input_tokens, more.input_tokens] == [len(turn.prompt_ids) for turn in turns]
    assert again.input_tokens == more.input_tokens
    # Without its session the thinking that was sampled is what the template makes of it.
    assert alone.input_tokens != more.input_tokens
    assert turns[1].link == "extends"
    assert len(served.engine.requests) == 2
