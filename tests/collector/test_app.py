"""The HTTP surface: what OpenAI's own client makes of a reply, and what is on record by then."""

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from collector.config import CollectorConfig
from collector.engine.wire import Finish
from collector.fakes import MemoryJournal, ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from tests.collector.chat_calls import END, HI, TOOLS, openai_client, replies
from tests.collector.loopback import post, serve, until

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city":  "Oslo"}}\n</tool_call>'


async def test_a_streamed_reply_is_what_was_sampled_and_is_on_record(qwen3: Renderer) -> None:
    text = f"<think>\nEasy.\n</think>\n\nIt is 42 – naïve 🙂.{END}"
    ids = qwen3.tokenizer.encode(text)
    async with serve(qwen3, replies(qwen3, text)) as served, openai_client(served) as client:
        async with client.chat.completions.stream(
            model="model",
            messages=[{"role": "user", "content": "What is 17 + 25?"}],
            stream_options={"include_usage": True},
            extra_headers={"x-session-id": "s1"},
        ) as stream:
            final = await stream.get_final_completion()
        turn = served.journal.turns[0]
    message: Any = final.choices[0].message
    assert message.content == "It is 42 – naïve 🙂."
    assert message.reasoning_content == "Easy."
    assert final.choices[0].finish_reason == "stop"
    assert final.id == f"chatcmpl-{turn.turn_id}"
    assert final.usage is not None
    assert (final.usage.prompt_tokens, final.usage.completion_tokens) == (len(turn.prompt_ids), len(ids))
    assert turn.completion_ids == ids
    assert turn.sampled_logprobs == [-0.5 - index / 1024 for index in ids]
    assert turn.prompt_ids == served.engine.requests[0].input_ids
    assert (turn.session_id, turn.turn, turn.link, turn.trainable) == ("s1", 1, "root", True)
    assert turn.response == {"role": "assistant", "content": message.content, "reasoning_content": "Easy."}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_tool_loop_through_the_client_extends_token_by_token(qwen3: Renderer, stream: bool) -> None:
    engine = replies(qwen3, f"<think>\nLook.\n</think>\n\n{CALL}{END}", f"It rains.{END}", f"Gladly.{END}")
    async with serve(qwen3, engine) as served, openai_client(served) as client:
        messages: list[Any] = [*HI]
        for following in ({"role": "tool", "content": "rain"}, {"role": "user", "content": "Thanks."}, None):
            if stream:
                async with client.chat.completions.stream(model="model", messages=messages, tools=TOOLS) as events:
                    answer = await events.get_final_completion()
            else:
                answer = await client.chat.completions.create(model="model", messages=messages, tools=TOOLS)
            choice = answer.choices[0]
            messages.append(choice.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
            if following is not None:
                calls = choice.message.tool_calls or []
                messages.append({**following, **({"tool_call_id": calls[0].id} if calls else {})})
        turns = served.journal.turns
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == '{"city":  "Oslo"}'
    assert turns[0].response is not None
    assert turns[0].response["tool_calls"][0]["id"] == messages[1]["tool_calls"][0]["id"]
    assert [turn.link for turn in turns] == ["root", "extends", "extends"]
    assert len({turn.session_id for turn in turns}) == 1
    for earlier, later in pairwise(turns):
        before = earlier.prompt_ids + earlier.completion_ids
        assert later.prompt_ids[: len(before)] == before
        assert later.parent_turn_id == earlier.turn_id


async def test_the_first_token_leaves_when_the_engine_gives_it(qwen3: Renderer) -> None:
    release = asyncio.Event()

    class Gate(ScriptedEngine):
        async def generate(self, request: Any) -> AsyncGenerator[Any, None]:
            steps = deltas(qwen3.tokenizer.encode(f"one two{END}"))
            yield steps[0]
            await release.wait()
            for step in steps[1:]:
                yield step

    async with serve(qwen3, Gate()) as served, openai_client(served) as client:
        stream = await client.chat.completions.create(model="model", messages=HI, stream=True)
        iterator = aiter(stream)
        first = [await asyncio.wait_for(anext(iterator), 5) for _ in range(2)]
        assert [chunk.choices[0].delta.content for chunk in first] == ["", "one"]
        release.set()
        rest = [chunk async for chunk in iterator]
        assert rest[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_end_is_only_sent_when_the_record_is_durable(qwen3: Renderer, stream: bool) -> None:
    journal = MemoryJournal()
    journal.held = []
    async with serve(qwen3, replies(qwen3, f"Hello.{END}"), journal=journal) as served:
        request = {"model": "model", "messages": HI, "stream": stream}
        task = asyncio.create_task(post(served, "/v1/chat/completions", request))
        await until(lambda: journal.held)
        await asyncio.sleep(0.1)
        assert not task.done()
        journal.let_go()
        status, _, answer = await asyncio.wait_for(task, 5)
        assert status == 200
        if stream:
            assert answer.endswith("data: [DONE]\n\n")


async def test_every_sampling_parameter_is_explicit_and_on_record(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, f"a{END}")) as served:
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI})
        asked = {
            "temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "presence_penalty": 0.5,
            "frequency_penalty": -0.5, "repetition_penalty": 1.1, "logit_bias": {"5": -3}, "seed": 11,
            "max_completion_tokens": 77, "stop": ["x", "y"],
        }  # fmt: skip
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI, **asked})
        plain, full = served.journal.turns
        sent = served.engine.requests[1].sampling_params
    assert (plain.temperature, plain.top_p, plain.top_k, plain.min_p, plain.max_tokens) == (1.0, 1.0, -1, 0.0, 4096)
    assert (plain.presence_penalty, plain.frequency_penalty, plain.repetition_penalty) == (0.0, 0.0, 1.0)
    assert plain.trainable
    assert (full.temperature, full.top_p, full.top_k, full.min_p, full.seed) == (0.7, 0.9, 40, 0.05, 11)
    assert (full.max_tokens, full.logit_bias) == (77, {"5": -3.0})
    assert (sent.temperature, sent.top_p, sent.top_k, sent.min_p, sent.sampling_seed) == (0.7, 0.9, 40, 0.05, 11)
    assert (sent.max_new_tokens, sent.stop, sent.logit_bias) == (77, ["x", "y"], {"5": -3.0})
    assert (full.trainable, full.untrainable_reason) == (False, "top_p")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("temperature", 0, "greedy"),
        ("top_p", 0.95, "top_p"),
        ("top_k", 5, "top_k"),
        ("min_p", 0.1, "min_p"),
        ("frequency_penalty", 0.1, "penalty"),
        ("logit_bias", {"1": 1}, "logit_bias"),
    ],
)
async def test_a_turn_whose_mu_is_not_what_sampled_is_untrainable(
    qwen3: Renderer, field: str, value: Any, reason: str
) -> None:
    async with serve(qwen3, replies(qwen3, f"a{END}")) as served:
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI, field: value})
        turn = served.journal.turns[0]
    assert (turn.trainable, turn.untrainable_reason) == (False, reason)


async def test_a_stop_string_is_not_shown_and_its_tokens_are_kept(qwen3: Renderer) -> None:
    ids = qwen3.tokenizer.encode("one two STOP")
    engine = ScriptedEngine(lambda _: deltas(ids, finish=Finish(type="stop", matched="STOP")))
    async with serve(qwen3, engine) as served, openai_client(served) as client:
        async with client.chat.completions.stream(model="model", messages=HI, stop="STOP") as stream:
            final = await stream.get_final_completion()
        assert final.choices[0].message.content == "one two "
        assert served.journal.turns[0].completion_ids == ids


async def test_ids_in_and_ids_out_are_recorded_too(qwen3: Renderer) -> None:
    ids = qwen3.tokenizer.encode(f"Hello.{END}")
    prompt = qwen3.tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n")
    async with serve(qwen3, replies(qwen3, f"Hello.{END}")) as served:
        request = {"input_ids": prompt, "sampling_params": {"max_new_tokens": 9}, "return_logprob": True}
        status, _, answer = await post(served, "/generate", request)
        turn = served.journal.turns[0]
        assert (status, answer["output_ids"], answer["text"]) == (200, ids, f"Hello.{END}")
        expected = [[-0.5 - index / 1024, index, None] for index in ids]
        assert answer["meta_info"]["output_token_logprobs"] == expected
        assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": ids[-1]}
        assert (turn.api, turn.prompt_ids, turn.completion_ids, turn.trainable) == ("generate", prompt, ids, True)
        longer = [*prompt, *ids, 198]
        await post(served, "/generate", {**request, "input_ids": longer})
        child = served.journal.turns[1]
        assert (child.session_id, child.parent_turn_id) == (turn.session_id, turn.turn_id)
        for wrong in (999_999, 2**31, -1):
            status, _, answer = await post(served, "/generate", {"input_ids": [wrong]})
            assert (status, answer["error"]["param"]) == (400, "input_ids")


async def test_a_template_that_ignores_tools_gets_them_in_words(renderer_for: Any) -> None:
    chatml = renderer_for("HuggingFaceTB-SmolLM2-135M-Instruct.jinja")
    engine = replies(chatml, f"{CALL}{END}", f"It rains.{END}")
    async with serve(chatml, engine) as served, openai_client(served) as client:
        first = await client.chat.completions.create(model="model", messages=HI, tools=TOOLS)
        assert first.choices[0].finish_reason == "tool_calls"
        call = (first.choices[0].message.tool_calls or [])[0]
        messages: list[Any] = [
            *HI,
            first.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "rain"},
        ]
        await client.chat.completions.create(model="model", messages=messages, tools=TOOLS)
        one, two = served.journal.turns
        assert "get_weather" in chatml.tokenizer.decode(one.prompt_ids)
        assert "<tool_response>\nrain\n</tool_response>" in chatml.tokenizer.decode(two.prompt_ids)
        assert two.link == "extends"
        async with aiohttp.ClientSession() as session, session.get(f"{served.url}/health") as health:
            assert (await health.json())["template_ignores"] == ["tools", "tool_calls"]


async def test_when_the_template_decides_thinking_in_a_tool_loop_is_kept_and_later_dropped(qwen3: Renderer) -> None:
    engine = replies(qwen3, f"<think>\nLook.\n</think>\n\n{CALL}{END}", f"<think>\nDone.\n</think>\n\nRain.{END}")
    config = CollectorConfig(history_reasoning="template")
    async with serve(qwen3, engine, config=config) as served, openai_client(served) as client:
        messages: list[Any] = [*HI]
        for following in (
            {"role": "tool", "content": "rain", "tool_call_id": "x"},
            {"role": "user", "content": "Why?"},
        ):
            answer = await client.chat.completions.create(model="model", messages=messages, tools=TOOLS)
            said = answer.choices[0].message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
            messages += [said, following]
        await client.chat.completions.create(model="model", messages=messages, tools=TOOLS)
        turns = served.journal.turns
        assert [turn.link for turn in turns] == ["root", "extends", "break"]
        assert turns[2].break_kind == "reasoning_stripped"
        assert "Look." not in qwen3.tokenizer.decode(turns[2].prompt_ids)
