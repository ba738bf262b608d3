"""The Responses wire: what OpenAI's own client makes of it, and what is on record by then."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import openai
import pytest

from collector.config import CollectorConfig
from collector.engine.wire import Finish
from collector.errors import EngineError, EngineUnavailable
from collector.fakes import Pause, ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from tests.collector.loopback import Served, post, serve, until
from tests.collector.sampled_text import replies
from tests.collector.wire_events import responses_events

END = "<|im_end|>"
TOOLS: list[Any] = [
    {"type": "function", "name": "get_weather", "description": "Weather.", "strict": False,
     "parameters": {"type": "object", "properties": {}}}
]  # fmt: skip
ASK: dict[str, Any] = {"model": "model", "input": "Hi"}
SEALED: Any = ["reasoning.encrypted_content"]


def call(city: str) -> str:
    return f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city":  "{city}"}}}}\n</tool_call>'


@asynccontextmanager
async def openai_client(served: Served) -> AsyncGenerator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=0) as client:
        yield client


async def response_of(client: openai.AsyncOpenAI, stream: bool, **asked: Any) -> Any:
    if not stream:
        return await client.responses.create(**asked)
    async with client.responses.stream(**asked) as events:
        return await events.get_final_response()


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("stream", [True, False])
async def test_reasoning_text_and_usage_reach_the_client_and_the_record(
    small: Renderer, stream: bool, size: int
) -> None:
    text = f"<think>\nEasy.\n</think>\n\nIt is 42 – naïve 🙂.{END}"
    engine = replies(small, text, cached_tokens=7, size=size)
    async with serve(small, engine) as served, openai_client(served) as client:
        response = await response_of(client, stream, **ASK, instructions="You help.")
        turn = served.journal.turns[0]
    reasoning, said = response.output
    assert (reasoning.type, reasoning.content[0].text, reasoning.encrypted_content) == ("reasoning", "Easy.", None)
    assert (said.type, response.output_text, said.status) == ("message", "It is 42 – naïve 🙂.", "completed")
    assert (response.id, response.model, response.status) == (f"resp_{turn.turn_id}", "model", "completed")
    assert (response.instructions, response.store, response.temperature) == ("You help.", False, 1.0)
    usage = response.usage
    assert (usage.input_tokens, usage.input_tokens_details.cached_tokens) == (len(turn.prompt_ids), 7)
    assert usage.output_tokens == len(turn.completion_ids) == len(small.tokenizer.encode(text))
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    # The tokens before the one that ends the thinking.
    assert usage.output_tokens_details.reasoning_tokens == len(small.tokenizer.encode("<think>\nEasy.\n"))
    assert (turn.api, turn.link, turn.trainable) == ("responses", "root", True)
    assert turn.request.messages == [
        {"role": "system", "content": "You help."}, {"role": "user", "content": "Hi"},
    ]  # fmt: skip


@pytest.mark.parametrize("include", [SEALED, None])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_tool_loop_with_reasoning_and_parallel_calls_extends_token_by_token(
    small: Renderer, stream: bool, include: Any
) -> None:
    engine = replies(
        small,
        f"<think>\nLook.\n</think>\n\nLet me see.\n{call('Oslo')}\n{call('Rome')}{END}",
        f"<think>\nAgain.\n</think>\n\n{call('Bern')}{END}",
        f"It rains.{END}",
        f"Gladly.{END}",
    )
    async with serve(small, engine) as served, openai_client(served) as client:
        items: list[Any] = [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You help."}]},
            {"role": "user", "content": "Hi"},
        ]
        for number in range(4):
            if number == 3:
                items.append({"role": "user", "content": "Thanks."})
            asked = {**ASK, "input": items, "tools": TOOLS, "store": False, "parallel_tool_calls": True}
            response = await response_of(client, stream, **asked, **({"include": include} if include else {}))
            for item in response.output:
                sent = item.to_dict()
                if item.type == "reasoning" and include:
                    # As clients that keep no plain text of it do.
                    assert sent.pop("content")
                    assert sent["encrypted_content"]
                items.append(sent)
            calls = [item for item in response.output if item.type == "function_call"]
            items += [
                {"type": "function_call_output", "call_id": item.call_id, "output": item.call_id}
                for item in reversed(calls)
            ]
        turns = served.journal.turns
    assert turns[0].response["tool_calls"][1]["id"] == items[5]["call_id"]
    assert items[4]["arguments"] == '{"city":  "Oslo"}'
    assert [turn.link for turn in turns] == ["root", "extends", "extends", "extends"]
    assert len({turn.session_id for turn in turns}) == 1
    for earlier, later in pairwise(turns):
        before = earlier.prompt_ids + earlier.completion_ids
        assert later.prompt_ids[: len(before)] == before
        assert later.parent_turn_id == earlier.turn_id
    said = [message for message in turns[3].request.messages if message["role"] == "assistant"]
    assert [message.get("reasoning_content") for message in said] == ["Look.", "Again.", None]
    last = small.tokenizer.decode(turns[3].prompt_ids)
    first, second = (call["id"] for call in turns[0].response["tool_calls"])
    assert last.index(f"<tool_response>\n{first}") < last.index(f"<tool_response>\n{second}")


async def test_every_event_is_one_that_the_sdk_defines_and_items_are_whole(small: Renderer) -> None:
    engine = replies(small, f"<think>\nA b.\n</think>\n\nText.\n{call('Oslo')}\n{call('Rome')}\nMore.{END}")
    async with serve(small, engine) as served:
        asked = {**ASK, "tools": TOOLS, "stream": True, "include": SEALED}
        _, _, answer = await post(served, "/v1/responses", asked)
    events = responses_events(answer)
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    added = [event for event in events if event["type"] == "response.output_item.added"]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [e["item"]["type"] for e in added] == ["reasoning", "message", "function_call", "function_call", "message"]
    assert [e["output_index"] for e in added] == [e["output_index"] for e in done] == [0, 1, 2, 3, 4]
    assert [e["item"]["id"] for e in added] == [e["item"]["id"] for e in done]
    assert len({e["item"]["id"] for e in done}) == 5
    # Every delta belongs to an item that is open, and the deltas make up what the item says when it is done.
    is_open, said = None, dict[str, str]()
    for event in events:
        if event["type"] == "response.output_item.added":
            assert is_open is None
            is_open = event["item"]["id"]
        elif event["type"].endswith(".delta"):
            assert event["item_id"] == is_open
            said[event["item_id"]] = said.get(event["item_id"], "") + event["delta"]
        elif event["type"] == "response.output_item.done":
            item = event["item"]
            whole = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
            assert (said[item["id"]], item["status"]) == (whole, "completed")
            is_open = None
    assert events[-1]["response"]["output"] == [event["item"] for event in done]
    assert done[0]["item"]["encrypted_content"]


@pytest.mark.parametrize("text", ["one two", "<think>\none two"])
async def test_a_reply_cut_by_length_is_incomplete(small: Renderer, text: str) -> None:
    engine = ScriptedEngine(lambda _: deltas(small.tokenizer.encode(text), finish=Finish(type="length")))
    async with serve(small, engine) as served, openai_client(served) as client:
        response = await client.responses.create(**ASK, max_output_tokens=7)
        assert (response.status, response.max_output_tokens) == ("incomplete", 7)
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"
        assert [item.status for item in response.output] == ["incomplete"]  # type: ignore[union-attr]
        async with client.responses.stream(**ASK) as stream:
            seen = [event async for event in stream]
        last: Any = seen[-1]
        assert (last.type, last.response.status) == ("response.incomplete", "incomplete")
        assert last.response.output[0].content[0].text == "one two"
        assert [turn.finish_reason for turn in served.journal.turns] == ["length", "length"]


async def test_a_failure_mid_stream_is_said_and_the_open_item_is_not_called_done(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"<think>\nA.\n</think>\n\none two{END}")
    engine = ScriptedEngine(lambda _: [*deltas(ids)[:9], EngineError("it broke")])
    async with serve(small, engine) as served, openai_client(served) as client:
        _, _, answer = await post(served, "/v1/responses", {**ASK, "stream": True})
        events = responses_events(answer)
        done = [event["item"]["type"] for event in events if event["type"] == "response.output_item.done"]
        failed = events[-1]
        assert (failed["type"], failed["response"]["status"], done) == ("response.failed", "failed", ["reasoning"])
        assert failed["response"]["error"] == {
            "code": "server_error",
            "message": failed["response"]["error"]["message"],
        }
        assert "it broke" in failed["response"]["error"]["message"]
        async with client.responses.stream(**ASK) as stream:
            seen = [event.type async for event in stream]
        assert seen[-1] == "response.failed"
        assert [turn.finish_reason for turn in served.journal.turns] == ["error", "error"]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_before_the_first_byte_is_an_error_status(small: Renderer, stream: bool) -> None:
    engine = ScriptedEngine(lambda _: [EngineUnavailable("nobody there")])
    async with serve(small, engine) as served, openai_client(served) as client:
        with pytest.raises(openai.InternalServerError) as raised:
            await response_of(client, stream, **ASK)
        assert (raised.value.status_code, raised.value.code) == (503, "engine_unavailable")
        assert raised.value.response.headers["retry-after"] == "5"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "messages"),
        ({"input": ["Hi"]}, "input[0]"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "web_search_call", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "function_call", "call_id": "1"}]}, "input[0]"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"type": "reasoning", "encrypted_content": "roundhouse.%"}]}, "input[0].encrypted_content"),
        ({"tools": [{"name": "f"}]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"background": True}, "background"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "top_logprobs"),
        ({"temperature": 3}, "temperature"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(small: Renderer, change: dict[str, Any], param: str) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        status, _, answer = await post(served, "/v1/responses", {**ASK, **change})
        assert (status, answer["error"]["type"], answer["error"]["param"]) == (400, "invalid_request_error", param)
        assert served.engine.requests == []


async def test_sampling_is_mapped_and_unknown_fields_are_accepted(small: Renderer) -> None:
    asked = {
        **ASK, "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 30, "prompt_cache_key": "k", "truncation": "auto",
        "client_metadata": {"a": "b"}, "new_field": {"a": 1}, "text": {"format": {"type": "text"}, "verbosity": "low"},
    }  # fmt: skip
    async with serve(small, replies(small, f"a{END}")) as served:
        assert (await post(served, "/v1/responses", asked))[0] == 200
        await post(served, "/v1/responses", ASK)
        full, plain = served.journal.turns
    assert (full.temperature, full.top_p, full.max_tokens) == (0.5, 0.9, 30)
    assert (plain.temperature, plain.top_p, plain.trainable) == (1.0, 1.0, True)


@pytest.mark.parametrize(("effort", "opens"), [("none", False), ("high", True), (None, True)])
async def test_thinking_is_turned_off_where_the_request_says_so(
    small: Renderer, effort: str | None, opens: bool
) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        await post(served, "/v1/responses", {**ASK, "reasoning": {"effort": effort, "summary": "auto"}})
        prompt = small.tokenizer.decode(served.journal.turns[0].prompt_ids)
    assert prompt.endswith("<think>\n\n</think>\n\n") is not opens


async def test_tools_that_are_not_functions_are_left_out_and_named(small: Renderer) -> None:
    tools = [*TOOLS, {"type": "web_search"}, {"type": "namespace", "name": "multi_agent_v1", "tools": TOOLS}]
    async with serve(small, replies(small, f"{call('Oslo')}{END}")) as served:
        status, headers, answer = await post(served, "/v1/responses", {**ASK, "tools": tools})
        turn = served.journal.turns[0]
    assert (status, headers["x-roundhouse-tools-left-out"]) == (200, "web_search, multi_agent_v1")
    assert answer["tools"] == TOOLS
    assert [tool["function"]["name"] for tool in turn.request.tools] == ["get_weather"]


async def test_reasoning_that_only_another_service_can_read_is_passed_over(small: Renderer) -> None:
    hidden = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    items = [{"role": "user", "content": "Hi"}, hidden, {"role": "assistant", "content": "So."}]
    items.append({"role": "user", "content": "Go on."})
    async with serve(small, replies(small, f"a{END}")) as served:
        assert (await post(served, "/v1/responses", {**ASK, "input": items}))[0] == 200
        said = served.journal.turns[0].request.messages[1]
    assert said == {"role": "assistant", "content": "So."}


async def test_codex_names_its_session_by_header(small: Renderer) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        await post(served, "/v1/responses", ASK, **{"session-id": "s7"})
        assert served.journal.turns[0].session_id == "s7"


async def test_silence_is_filled_with_events(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"a{END}")
    engine = ScriptedEngine(lambda _: [Pause(0.3), *deltas(ids)])
    async with serve(small, engine, config=CollectorConfig(ping_interval_s=0.05)) as served, openai_client(served) as c:
        response = await response_of(c, True, **ASK)
        _, _, answer = await post(served, "/v1/responses", {**ASK, "stream": True})
    assert response.output_text == "a"
    kinds = [event["type"] for event in responses_events(answer)]
    assert kinds.count("response.in_progress") > 2


async def test_a_client_that_leaves_is_on_record_and_the_engine_is_told(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"one two three{END}")
    engine = ScriptedEngine(lambda _: [*deltas(ids)[:3], Pause(30), *deltas(ids)[3:]])
    async with serve(small, engine) as served, openai_client(served) as client:
        async with client.responses.stream(**ASK) as stream:
            async for event in stream:
                if event.type == "response.output_text.delta":
                    break
        await until(lambda: served.journal.turns)
        turn = served.journal.turns[0]
    assert (turn.finish_reason, turn.trainable) == ("client_gone", False)
    assert served.engine.aborted == [turn.turn_id]


async def test_a_response_id_is_a_receipt_for_feedback(small: Renderer) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        _, _, answer = await post(served, "/v1/responses", ASK)
        body = {"response_id": answer["id"], "kind": "thumb", "value": 1}
        assert (await post(served, "/v1/feedback", body))[0] == 200
        assert served.journal.records[-1].turn_id == served.journal.turns[0].turn_id


async def test_the_end_is_only_sent_when_the_record_is_durable(small: Renderer) -> None:
    async with serve(small, replies(small, f"Hello.{END}")) as served:
        served.journal.held = []
        task = asyncio.create_task(post(served, "/v1/responses", {**ASK, "stream": True}))
        await until(lambda: served.journal.held)
        await asyncio.sleep(0.1)
        assert not task.done()
        served.journal.let_go()
        _, _, answer = await asyncio.wait_for(task, 5)
        assert responses_events(answer)[-1]["type"] == "response.completed"
