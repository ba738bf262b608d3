"""The Messages wire: what Anthropic's own client makes of it, and what is on record by then."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import aiohttp
import anthropic
import pytest

from collector.config import CollectorConfig
from collector.engine.wire import Finish
from collector.errors import EngineError, EngineUnavailable
from collector.fakes import Pause, ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.rendering.renderer import Renderer
from tests.collector.loopback import Served, post, serve, until
from tests.collector.sampled_text import replies
from tests.collector.wire_events import messages_events

END = "<|im_end|>"
HI: list[Any] = [{"role": "user", "content": "Hi"}]
TOOLS: list[Any] = [
    {"name": "get_weather", "description": "Weather.", "input_schema": {"type": "object", "properties": {}}}
]
ASK = {"model": "model", "max_tokens": 100, "messages": HI}


def call(city: str) -> str:
    return f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city":  "{city}", "days": 1.0}}}}\n</tool_call>'


@asynccontextmanager
async def anthropic_client(served: Served) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=served.url, api_key="any", max_retries=0) as client:
        yield client


async def message_of(client: anthropic.AsyncAnthropic, stream: bool, **asked: Any) -> Any:
    if not stream:
        return await client.messages.create(**asked)
    async with client.messages.stream(**asked) as events:
        return await events.get_final_message()


@pytest.mark.parametrize("stream", [True, False])
async def test_thinking_text_and_usage_reach_the_client_and_the_record(small: Renderer, stream: bool) -> None:
    text = f"<think>\nEasy.\n</think>\n\nIt is 42 – naïve 🙂.{END}"
    engine = replies(small, text, cached_tokens=7)
    async with serve(small, engine) as served, anthropic_client(served) as client:
        message = await message_of(client, stream, **ASK)
        turn = served.journal.turns[0]
    thinking, said = message.content
    assert (thinking.type, thinking.thinking, said.type, said.text) == (
        "thinking", "Easy.", "text", "It is 42 – naïve 🙂."
    )  # fmt: skip
    assert thinking.signature
    assert (message.id, message.model, message.role) == (f"msg_{turn.turn_id}", "model", "assistant")
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens) == (len(turn.prompt_ids) - 7, 7)
    assert usage.output_tokens == len(turn.completion_ids) == len(small.tokenizer.encode(text))
    assert (turn.api, turn.link, turn.trainable) == ("messages", "root", True)
    assert turn.response == {"role": "assistant", "content": said.text, "reasoning_content": "Easy."}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_tool_loop_with_thinking_and_parallel_calls_extends_token_by_token(
    small: Renderer, stream: bool
) -> None:
    engine = replies(
        small,
        f"<think>\nLook.\n</think>\n\nLet me see.\n{call('Oslo')}\n{call('Rome')}{END}",
        f"<think>\nAgain.\n</think>\n\n{call('Bern')}{END}",
        f"It rains.{END}",
        f"Gladly.{END}",
    )
    system: list[Any] = [{"type": "text", "text": "You help."}, {"type": "text", "text": " Briefly."}]
    async with serve(small, engine) as served, anthropic_client(served) as client:
        messages: list[Any] = [*HI, {"role": "system", "content": "Tools may be slow."}]
        for number in range(4):
            # As Claude Code does: the mark is on the newest block, and the first block differs every time.
            line = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.197.{number}; cch={number};"}
            marked = {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}}
            asked = [*messages, {"role": "user", "content": [marked]}] if number == 3 else messages
            message = await message_of(
                client, stream, **{**ASK, "messages": asked}, system=[line, *system], tools=TOOLS
            )
            messages = [*asked, {"role": "assistant", "content": [block.model_dump() for block in message.content]}]
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": block.id}]}
                for block in message.content
                if block.type == "tool_use"
            ]
            if results:
                assert message.stop_reason == "tool_use"
                messages.append({"role": "user", "content": results[::-1]})
        turns = served.journal.turns
    assert [block["type"] for block in messages[2]["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block["input"] for block in messages[2]["content"][2:]] == [
        {"city": "Oslo", "days": 1.0}, {"city": "Rome", "days": 1.0},
    ]  # fmt: skip
    assert turns[0].response["tool_calls"][1]["id"] == messages[2]["content"][3]["id"]
    assert [turn.link for turn in turns] == ["root", "extends", "extends", "extends"]
    assert len({turn.session_id for turn in turns}) == 1
    for earlier, later in pairwise(turns):
        before = earlier.prompt_ids + earlier.completion_ids
        assert later.prompt_ids[: len(before)] == before
        assert later.parent_turn_id == earlier.turn_id
    last = small.tokenizer.decode(turns[3].prompt_ids)
    assert "billing" not in last
    assert last.startswith("<|im_start|>system\nYou help. Briefly.")
    first, second = (call["id"] for call in turns[0].response["tool_calls"])
    # Results stand in the order of the calls, since the template shows no ids.
    assert last.index(f"<tool_response>\n{first}") < last.index(f"<tool_response>\n{second}")


async def test_what_is_stored_of_a_conversation_is_the_same_in_every_turn(small: Renderer) -> None:
    """Marks that move from request to request are not part of it, or a session would be stored anew every turn."""
    async with serve(small, replies(small, f"a{END}")) as served:
        mark = {"cache_control": {"type": "ephemeral"}}
        plain = {"role": "user", "content": "Hi"}
        marked = {"role": "user", "content": [{"type": "text", "text": "Hi", **mark}]}
        for message in (marked, plain):
            await post(served, "/v1/messages", {**ASK, "messages": [message]})
        first, second = served.journal.turns
    assert first.request == second.request
    assert first.request.messages == [plain]


async def test_every_event_is_one_that_the_sdk_defines_and_blocks_never_mix(small: Renderer) -> None:
    engine = replies(small, f"<think>\nA b.\n</think>\n\nText.\n{call('Oslo')}\n{call('Rome')}\nMore.{END}")
    async with serve(small, engine) as served:
        _, _, answer = await post(served, "/v1/messages", {**ASK, "tools": TOOLS, "stream": True})
        turn = served.journal.turns[0]
    events = messages_events(answer)
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds.count("message_start"), kinds[-2:]) == (
        "message_start", 1, ["message_delta", "message_stop"]
    )  # fmt: skip
    # The prompt's real size from the first event on: a client's context meter reads it there.
    assert events[0]["message"]["usage"]["input_tokens"] == len(turn.prompt_ids) > 0
    started = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert started == ["thinking", "text", "tool_use", "tool_use", "text"]
    assert [e["index"] for e in events if e["type"] == "content_block_start"] == [0, 1, 2, 3, 4]
    allowed = {
        "thinking": {"thinking_delta", "signature_delta"}, "text": {"text_delta"}, "tool_use": {"input_json_delta"},
    }  # fmt: skip
    is_open = None
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert is_open is None
            is_open = event["content_block"]["type"]
        elif event["type"] == "content_block_delta":
            assert event["delta"]["type"] in allowed[is_open or ""]
        else:
            assert event["type"] == "content_block_stop"
            is_open = None
    assert is_open is None
    signed = [n for n, event in enumerate(events) if event.get("delta", {}).get("type") == "signature_delta"]
    assert len(signed) == 1
    assert events[signed[0] + 1]["type"] == "content_block_stop"
    tool = [event["delta"]["partial_json"] for event in events if "partial_json" in event.get("delta", {})]
    assert json.loads(tool[0]) == {"city": "Oslo", "days": 1.0}
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["output_tokens"] == len(turn.completion_ids)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("finish", "text", "reason", "stop"),
    [
        (Finish(type="length"), "one two", "max_tokens", None),
        (Finish(type="length"), "<think>\none two", "max_tokens", None),
        (Finish(type="stop", matched="STOP"), "one STOP", "stop_sequence", "STOP"),
        (None, END, "end_turn", None),
        (None, f"<think>\n\n</think>\n\nHi.{END}", "end_turn", None),
    ],
)
async def test_how_a_reply_ended(
    small: Renderer, stream: bool, finish: Finish | None, text: str, reason: str, stop: str | None
) -> None:
    engine = ScriptedEngine(lambda _: deltas(small.tokenizer.encode(text), finish=finish))
    async with serve(small, engine) as served, anthropic_client(served) as client:
        message = await message_of(client, stream, **ASK, stop_sequences=["STOP"])
    assert (message.stop_reason, message.stop_sequence) == (reason, stop)
    said = {"one two": ["text"], "<think>\none two": ["thinking"], "one STOP": ["text"], END: []}.get(text, ["text"])
    assert [block.type for block in message.content] == said
    assert message.stop_reason != "stop_sequence" or message.content[0].text == "one "


async def test_a_failure_mid_stream_is_said_and_the_open_block_is_not_called_done(small: Renderer) -> None:
    ids = small.tokenizer.encode("one two")
    engine = ScriptedEngine(lambda _: [*deltas(ids)[:3], EngineError("it broke")])
    async with serve(small, engine) as served, anthropic_client(served) as client:
        _, _, answer = await post(served, "/v1/messages", {**ASK, "stream": True})
        kinds = [event["type"] for event in messages_events(answer)]
        assert kinds[-2:] == ["content_block_delta", "error"]
        assert not {"content_block_stop", "message_delta", "message_stop"} & set(kinds)
        with pytest.raises(anthropic.APIStatusError) as raised:
            await message_of(client, True, **ASK)
        assert "it broke" in str(raised.value)
        assert [turn.finish_reason for turn in served.journal.turns] == ["error", "error"]


@pytest.mark.parametrize("stream", [True, False])
async def test_errors_before_the_first_byte_have_anthropics_statuses(small: Renderer, stream: bool) -> None:
    engine = ScriptedEngine(lambda _: [EngineUnavailable("nobody there")], lambda _: [EngineError("busy", status=429)])
    async with serve(small, engine) as served, anthropic_client(served) as client:
        with pytest.raises(anthropic.InternalServerError) as raised:
            await message_of(client, stream, **ASK)
        assert (raised.value.status_code, raised.value.body["error"]["type"]) == (503, "overloaded_error")  # type: ignore[index]
        assert raised.value.response.headers["retry-after"] == "5"
        with pytest.raises(anthropic.InternalServerError) as raised:
            await message_of(client, stream, **ASK)
        assert (raised.value.status_code, raised.value.body["error"]["type"]) == (529, "overloaded_error")  # type: ignore[index]
        with pytest.raises(anthropic.NotFoundError) as missing:
            await message_of(client, stream, **{**ASK, "model": "nobody"})
        assert missing.value.body["type"] == "error"  # type: ignore[index]


async def test_a_prompt_beyond_the_context_is_refused_in_the_words_that_claude_code_knows(
    small: Renderer,
) -> None:
    async with serve(small, replies(small, f"a{END}"), context_tokens=64) as served:
        long = [{"role": "user", "content": "word " * 50}]
        status, _, answer = await post(served, "/v1/messages", {**ASK, "messages": long})
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert answer["error"]["message"].startswith("prompt is too long")


async def test_both_kinds_of_key_are_taken_and_a_wrong_one_is_refused_in_anthropics_words(small: Renderer) -> None:
    config = CollectorConfig(keys={sha256_of("key"): "a"})
    async with serve(small, replies(small, f"a{END}"), config=config) as served:
        for headers in ({"x-api-key": "key"}, {"authorization": "Bearer key"}):
            assert (await post(served, "/v1/messages", ASK, **headers))[0] == 200
            assert (await post(served, "/v1/messages/count_tokens", ASK, **headers))[0] == 200
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            status, _, answer = await post(served, path, ASK, **{"x-api-key": "other"})
            assert (status, answer["type"], answer["error"]["type"]) == (401, "error", "authentication_error")


async def test_the_address_itself_answers(small: Renderer) -> None:
    async with (
        serve(small, replies(small, "a")) as served,
        aiohttp.ClientSession() as session,
        session.head(served.url) as answer,
    ):
        assert answer.status == 200


async def test_models_are_listed_for_anthropics_client(small: Renderer) -> None:
    async with serve(small, replies(small, "a")) as served, anthropic_client(served) as client:
        models = [model async for model in client.models.list()]
        one = await client.models.retrieve("model")
    assert [(model.id, model.type, model.display_name) for model in models] == [("model", "model", "model")]
    assert one.created_at == models[0].created_at


async def test_silence_is_filled_with_pings(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"a{END}")
    engine = ScriptedEngine(lambda _: [Pause(0.3), *deltas(ids)])
    async with serve(small, engine, config=CollectorConfig(ping_interval_s=0.05)) as served:
        _, _, answer = await post(served, "/v1/messages", {**ASK, "stream": True})
    kinds = [event["type"] for event in messages_events(answer)]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-1] == "message_stop"


async def test_a_client_that_leaves_is_on_record_and_the_engine_is_told(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"one two three{END}")
    engine = ScriptedEngine(lambda _: [*deltas(ids)[:3], Pause(30), *deltas(ids)[3:]])
    async with serve(small, engine) as served, anthropic_client(served) as client:
        async with client.messages.stream(**ASK) as stream:
            async for event in stream:
                if event.type == "text":
                    break
        await until(lambda: served.journal.turns)
        turn = served.journal.turns[0]
    assert (turn.finish_reason, turn.trainable) == ("client_gone", False)
    assert served.engine.aborted == [turn.turn_id]


async def test_a_message_id_is_a_receipt_for_feedback(small: Renderer) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        _, _, answer = await post(served, "/v1/messages", ASK)
        body = {"response_id": answer["id"], "kind": "thumb", "value": 1}
        status, _, told = await post(served, "/v1/feedback", body)
        turn = served.journal.turns[0]
    assert status == 200, told
    assert served.journal.records[-1].turn_id == turn.turn_id


async def test_the_end_is_only_sent_when_the_record_is_durable(small: Renderer) -> None:
    async with serve(small, replies(small, f"Hello.{END}")) as served:
        served.journal.held = []
        task = asyncio.create_task(post(served, "/v1/messages", {**ASK, "stream": True}))
        await until(lambda: served.journal.held)
        await asyncio.sleep(0.1)
        assert not task.done()
        served.journal.let_go()
        _, _, answer = await asyncio.wait_for(task, 5)
        assert messages_events(answer)[-1]["type"] == "message_stop"
