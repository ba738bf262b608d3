"""The HTTP surface: what OpenAI's own client makes of it, and what is on record by then."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import aiohttp
import openai
import pytest

from collector.app import TurnEndpoint
from collector.config import CollectorConfig
from collector.engine.wire import Finish
from collector.errors import EngineError, EngineUnavailable, StoreError
from collector.fakes import MemoryJournal, Pause, ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.rendering.renderer import Renderer
from collector.shapes.problem import openai_problem
from collector.turnstile import Turnstile
from tests.collector.loopback import Served, post, serve, until

HI = [{"role": "user", "content": "Hi"}]
END = "<|im_end|>"
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city":  "Oslo"}}\n</tool_call>'


ARGUMENTS = "messages[0].tool_calls[0].function.arguments"
ODD_ARGUMENTS = [
    '{"a": "\\ud800"}',
    '{"\\udc00": 1}',
    '{"a": [{"b": "x\\uD800y"}]}',
    f'{{"a": {"[" * 64}{"]" * 64}}}',
    f'{{"a": {"[" * 5_000}{"]" * 5_000}}}',
    "[" * 100_000,
]


def nested(levels: int) -> dict[str, Any]:
    inner: Any = 1
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def called(arguments: str) -> list[dict[str, Any]]:
    """A history in which a tool was called with these arguments."""
    function = {"name": "get_weather", "arguments": arguments}
    return [
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": "rain"},
    ]


@asynccontextmanager
async def openai_client(served: Served, key: str = "any") -> AsyncGenerator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0) as client:
        yield client


def replies(renderer: Renderer, *texts: str) -> ScriptedEngine:
    """An engine that samples these texts, one per request."""

    def script(text: str) -> Any:
        ids = renderer.tokenizer.encode(text)
        return lambda request: deltas(ids, prompt_tokens=len(request.input_ids))

    return ScriptedEngine(*(script(text) for text in texts))


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


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": "Hi"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logit_bias": {"word": 1}}, "logit_bias"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"seed": 2**70}, "seed"),
        ({"logit_bias": {"9" * 40: 1}}, "logit_bias"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
        ({"stop_token_ids": [2**40]}, "stop_token_ids"),
        ({"stop_token_ids": [2**70]}, "stop_token_ids"),
        ({"top_k": 2**63}, "top_k"),
        ({"top_k": 2**70}, "top_k"),
        ({"top_k": -2}, "top_k"),
        ({"max_tokens": 2**63}, "max_tokens"),
        ({"max_completion_tokens": 2**70}, "max_completion_tokens"),
        ({"seed": -(2**63) - 1}, "seed"),
        ({"n": 2**70}, "n"),
        ({"logit_bias": {"1": 1e308}}, "logit_bias[1]"),
        ({"temperature": 10**400}, "temperature"),
        ({"chat_template_kwargs": nested(65)}, "chat_template_kwargs"),
        ({"messages": [{"role": "user", "content": "x", "extra": nested(64)}]}, "messages[0]"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": nested(63)}}]}, "tools[0]"),
        *(({"messages": called(arguments)}, ARGUMENTS) for arguments in ODD_ARGUMENTS),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(qwen3: Renderer, change: dict[str, Any], param: str) -> None:
    async with serve(qwen3, replies(qwen3, f"a{END}")) as served:
        status, _, answer = await post(served, "/v1/chat/completions", {"model": "model", "messages": HI, **change})
        assert (status, answer["error"]["type"], answer["error"]["param"]) == (400, "invalid_request_error", param)
        assert served.engine.requests == []


@pytest.mark.parametrize("body", [b"{", b"[]", b"", b"\xff", b'"text"', b'{"model": "model", "messages": [1]}'])
async def test_what_is_no_request_is_refused_in_openais_shape(qwen3: Renderer, body: bytes) -> None:
    async with serve(qwen3, replies(qwen3, "a")) as served:
        status, _, answer = await post(served, "/v1/chat/completions", body)
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


async def test_unknown_fields_are_tolerated(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, f"a{END}")) as served:
        request = {"model": "model", "messages": HI, "user": "u", "store": False, "brand_new": {"x": 1}}
        assert (await post(served, "/v1/chat/completions", request))[0] == 200


async def test_an_unknown_model_is_not_found_and_leaves_no_record(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, "a")) as served, openai_client(served) as client:
        with pytest.raises(openai.NotFoundError) as raised:
            await client.chat.completions.create(model="gpt-9", messages=HI)
        assert raised.value.code == "model_not_found"
        assert served.journal.records == []
        assert [model.id async for model in client.models.list()] == ["model"]


async def test_a_context_that_is_too_long_is_refused_and_on_record(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, "a"), context_tokens=20) as served, openai_client(served) as client:
        with pytest.raises(openai.BadRequestError) as raised:
            await client.chat.completions.create(model="model", messages=[{"role": "user", "content": "word " * 50}])
        assert raised.value.code == "context_length_exceeded"
        turn = served.journal.turns[0]
        assert (turn.finish_reason, turn.complete, turn.completion_ids) == ("error", False, [])
        assert served.engine.requests == []


async def test_max_tokens_never_exceeds_what_the_context_has_room_for(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, f"a{END}"), context_tokens=100) as served:
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI, "max_tokens": 32_000})
        turn = served.journal.turns[0]
        assert turn.max_tokens == 100 - len(turn.prompt_ids)


FAILURES = [
    (EngineUnavailable("cannot be reached"), 503, "engine_unavailable"),
    (EngineError("broke its contract"), 502, "engine_failed"),
    (EngineError("The input is longer than the model's context length", status=400), 400, "context_length_exceeded"),
    (EngineError("too many requests", status=429), 503, "engine_busy"),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("failure", "status", "code"), FAILURES)
async def test_an_engine_that_fails_before_the_first_token(
    qwen3: Renderer, failure: EngineError, status: int, code: str, stream: bool
) -> None:
    async with serve(qwen3, ScriptedEngine(lambda _: [failure])) as served:
        request = {"model": "model", "messages": HI, "stream": stream}
        found, headers, answer = await post(served, "/v1/chat/completions", request)
        assert (found, answer["error"]["code"]) == (status, code)
        assert ("Retry-After" in headers) == (status == 503)
        turn = served.journal.turns[0]
        assert (turn.finish_reason, turn.complete, turn.untrainable_reason) == ("error", False, "error")
        assert (turn.completion_ids, turn.sampled_logprobs, turn.weight_versions) == ([], [], [])
        assert turn.response is not None
        assert str(failure) in turn.response["error"]["message"]


async def test_an_engine_that_is_cut_off_mid_stream_ends_the_stream_with_an_error(qwen3: Renderer) -> None:
    ids = qwen3.tokenizer.encode("one two three")
    engine = ScriptedEngine(lambda _: [*deltas(ids)[:2], EngineUnavailable("cut after 2 tokens")])
    async with serve(qwen3, engine) as served, openai_client(served) as client:
        stream = await client.chat.completions.create(model="model", messages=HI, stream=True)
        with pytest.raises(openai.APIError, match="cut after 2 tokens"):
            async for _ in stream:
                pass
        status, _, answer = await post(served, "/v1/chat/completions", {"model": "model", "messages": HI})
        assert (status, answer["error"]["code"]) == (502, "engine_failed")
        turn = served.journal.turns[0]
        assert (turn.completion_ids, len(turn.sampled_logprobs), turn.complete) == (ids[:2], 2, False)
        assert turn.untrainable_reason == "error"


async def test_an_engine_that_counts_other_prompt_tokens_is_not_believed(qwen3: Renderer) -> None:
    ids = qwen3.tokenizer.encode(f"a{END}")
    async with serve(qwen3, ScriptedEngine(lambda _: deltas(ids, prompt_tokens=3))) as served:
        status, _, answer = await post(served, "/v1/chat/completions", {"model": "model", "messages": HI})
        assert status == 502
        assert "counted 3 prompt tokens" in answer["error"]["message"]
        assert not served.journal.turns[0].trainable


async def test_an_aborted_reply_is_an_error_and_an_untrainable_record(qwen3: Renderer) -> None:
    ids = qwen3.tokenizer.encode("one two")
    engine = ScriptedEngine(lambda _: deltas(ids, finish=Finish(type="abort", message="paused")))
    async with serve(qwen3, engine) as served:
        status, _, answer = await post(served, "/v1/chat/completions", {"model": "model", "messages": HI})
        assert (status, answer["error"]["code"]) == (503, "engine_aborted")
        turn = served.journal.turns[0]
        assert (turn.finish_reason, turn.completion_ids, turn.untrainable_reason) == ("abort", ids, "aborted")


async def wait_for_turn(served: Served) -> Any:
    await until(lambda: served.journal.turns)
    return served.journal.turns[0]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_before_the_first_byte_stops_the_engine(qwen3: Renderer, stream: bool) -> None:
    async with serve(qwen3, ScriptedEngine(lambda _: [Pause(30)])) as served:
        request = {"model": "model", "messages": HI, "stream": stream}
        task = asyncio.create_task(post(served, "/v1/chat/completions", request))
        await until(lambda: served.engine.requests)
        task.cancel()
        turn = await wait_for_turn(served)
        assert (turn.finish_reason, turn.complete, turn.untrainable_reason) == ("client_gone", False, "client_gone")
        assert turn.completion_ids == []
        assert served.engine.aborted == [turn.turn_id]
        await until(lambda: served.collector.capture.running == 0)


async def test_a_client_that_leaves_mid_stream_leaves_what_was_sampled(qwen3: Renderer) -> None:
    ids = qwen3.tokenizer.encode("one two three four")
    engine = ScriptedEngine(lambda _: [*deltas(ids)[:2], Pause(30)])
    async with serve(qwen3, engine) as served, openai_client(served) as client:
        stream = await client.chat.completions.create(model="model", messages=HI, stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
        turn = await wait_for_turn(served)
        assert (turn.finish_reason, turn.completion_ids, len(turn.sampled_logprobs)) == ("client_gone", ids[:2], 2)
        assert served.engine.aborted == [turn.turn_id]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_whole_reply_is_recorded_as_whole_though_the_client_leaves_while_others_end(
    qwen3: Renderer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    ids = qwen3.tokenizer.encode(f"One.{END}")
    real, entered = Turnstile.enter, list[Turnstile]()

    async def enter(self: Turnstile) -> None:
        entered.append(self)
        await (real(self) if len(entered) == 1 else asyncio.Event().wait())

    monkeypatch.setattr(Turnstile, "enter", enter)
    async with serve(qwen3, ScriptedEngine(lambda _: deltas(ids))) as served:
        request = {"model": "model", "messages": HI, "stream": stream}
        task = asyncio.create_task(post(served, "/v1/chat/completions", request))
        await until(lambda: len(entered) == 2)
        task.cancel()
        turn = await wait_for_turn(served)
        assert (turn.finish_reason, turn.complete, turn.completion_ids) == ("stop", True, ids)
        assert served.engine.aborted == []
        await until(lambda: served.collector.capture.running == 0)
        assert len(served.journal.turns) == 1


async def test_a_waiting_client_is_sent_comments(qwen3: Renderer) -> None:
    ids = qwen3.tokenizer.encode(f"a{END}")
    engine = ScriptedEngine(lambda _: [Pause(0.25), *deltas(ids)])
    async with serve(qwen3, engine, config=CollectorConfig(ping_interval_s=0.1)) as served:
        request = {"model": "model", "messages": HI, "stream": True}
        _, headers, answer = await post(served, "/v1/chat/completions", request)
        assert answer.index(": ping\n\n") < answer.index('"content":"a"')
        assert headers["Content-Type"].startswith("text/event-stream")
        async with openai_client(served) as client:
            stream = await client.chat.completions.create(model="model", messages=HI, stream=True)
            assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "a"


async def test_an_error_after_a_comment_comes_as_an_event(qwen3: Renderer) -> None:
    engine = ScriptedEngine(lambda _: [Pause(0.25), EngineUnavailable("gone")])
    async with serve(qwen3, engine, config=CollectorConfig(ping_interval_s=0.1)) as served:
        request = {"model": "model", "messages": HI, "stream": True}
        status, _, answer = await post(served, "/v1/chat/completions", request)
        assert status == 200
        assert '"error":{"message":"gone"' in answer
        assert "[DONE]" not in answer


@pytest.mark.parametrize("stream", [True, False])
async def test_a_store_that_fails_is_served_around_and_said_so(qwen3: Renderer, stream: bool) -> None:
    journal = MemoryJournal()
    journal.failure = "disk full"
    async with serve(qwen3, replies(qwen3, f"a{END}"), journal=journal) as served:
        request = {"model": "model", "messages": HI, "stream": stream}
        status, headers, answer = await post(served, "/v1/chat/completions", request)
        assert status == 200
        assert ": not recorded" in answer if stream else headers["x-roundhouse-recorded"] == "false"
        async with aiohttp.ClientSession() as session, session.get(f"{served.url}/metrics") as metrics:
            assert 'roundhouse_unrecorded_total{table="turns"} 1.0' in await metrics.text()
        async with aiohttp.ClientSession() as session, session.get(f"{served.url}/ready") as ready:
            assert ready.status == 503


async def test_a_store_that_fails_refuses_before_sampling_where_that_is_configured(qwen3: Renderer) -> None:
    journal = MemoryJournal()
    config = CollectorConfig(on_store_failure="refuse")
    async with serve(qwen3, replies(qwen3, f"a{END}"), journal=journal, config=config) as served:
        request = {"model": "model", "messages": HI}
        journal.failure = "disk full"
        status, headers, answer = await post(served, "/v1/chat/completions", request)
        assert (status, answer["error"]["code"]) == (503, "store_unavailable")
        assert "Retry-After" in headers
        assert served.engine.requests == []


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


async def test_a_conversation_without_a_header_stays_one_session_and_strangers_stay_apart(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, f"Hello.{END}")) as served:
        first = {"model": "model", "messages": HI}
        following = {"model": "model", "messages": [*HI, {"role": "assistant", "content": "Hello."}, *HI]}
        await post(served, "/v1/chat/completions", first)
        await post(served, "/v1/chat/completions", {**first, "messages": [{"role": "user", "content": "Else"}]})
        await post(served, "/v1/chat/completions", following)
        one, two, three = served.journal.turns
        assert one.session_id == three.session_id != two.session_id
        assert (three.turn, three.link, three.parent_turn_id) == (2, "extends", one.turn_id)


async def test_rewritten_history_is_a_break_and_the_model_sees_what_the_client_asked_for(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, f"Hello.{END}")) as served:
        headers = {"x-session-id": "s"}
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI}, **headers)
        messages = [*HI, {"role": "assistant", "content": "Goodbye."}, *HI]
        await post(served, "/v1/chat/completions", {"model": "model", "messages": messages}, **headers)
        turn = served.journal.turns[1]
        assert (turn.link, turn.break_kind, turn.parent_turn_id) == ("break", "other", None)
        assert "Goodbye." in qwen3.tokenizer.decode(turn.prompt_ids)


async def test_interleaved_subagents_of_one_session_each_extend_their_own_line(qwen3: Renderer) -> None:
    """Case 017: calls of a main agent and a subagent arrive in turn."""
    async with serve(qwen3, replies(qwen3, f"Hello.{END}")) as served:
        lines: dict[str, list[Any]] = {
            name: [{"role": "system", "content": name}, {"role": "user", "content": "Go."}] for name in ("main", "sub")
        }
        for _ in range(2):
            for messages in lines.values():
                await post(
                    served, "/v1/chat/completions", {"model": "model", "messages": messages}, **{"x-session-id": "s"}
                )
                messages += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "On."}]
        turns = served.journal.turns
        parents = [turn.parent_turn_id for turn in turns]
        assert parents == [None, None, turns[0].turn_id, turns[1].turn_id]
        assert [turn.link for turn in turns] == ["root", "root", "extends", "extends"]


async def test_keys_tell_tenants_apart_and_nothing_of_them_is_kept(qwen3: Renderer) -> None:
    keys = {sha256_of("key-a"): "a", sha256_of("key-b"): "b"}
    async with serve(qwen3, replies(qwen3, f"Hello.{END}"), config=CollectorConfig(keys=keys)) as served:
        request = {"model": "model", "messages": HI}
        for key in ("wrong", ""):
            status, _, answer = await post(served, "/v1/chat/completions", request, authorization=f"Bearer {key}")
            assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
        following = {"model": "model", "messages": [*HI, {"role": "assistant", "content": "Hello."}, *HI]}
        for body, key in ((request, "key-a"), (following, "key-b"), (following, "key-a")):
            status, _, _ = await post(served, "/v1/chat/completions", body, authorization=f"Bearer {key}")
            assert status == 200
        turns = served.journal.turns
        assert [turn.tenant for turn in turns] == ["a", "b", "a"]
        assert turns[0].session_id == turns[2].session_id != turns[1].session_id
        assert "key-a" not in repr(served.journal.records)


async def test_the_same_session_name_of_two_tenants_is_two_sessions(qwen3: Renderer) -> None:
    keys = {sha256_of("key-a"): "a", sha256_of("key-b"): "b"}
    async with serve(qwen3, replies(qwen3, f"Hello.{END}"), config=CollectorConfig(keys=keys)) as served:
        for key in ("key-a", "key-b"):
            headers = {"authorization": f"Bearer {key}", "x-session-id": "one"}
            await post(served, "/v1/chat/completions", {"model": "model", "messages": HI}, **headers)
        assert [(turn.session_id, turn.turn) for turn in served.journal.turns] == [("a/one", 1), ("b/one", 1)]


async def test_a_request_that_is_too_large_is_refused_unread(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, "a"), config=CollectorConfig(max_request_bytes=1000)) as served:
        status, _, answer = await post(served, "/v1/chat/completions", b"x" * 1001)
        assert (status, answer["error"]["code"]) == (413, "request_too_large")


async def test_unknown_paths_and_methods_are_told_so_in_openais_shape(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, "a")) as served:
        assert (await post(served, "/v1/nothing", {}))[0] == 404
        status, _, answer = await post(served, "/health", {})
        assert (status, answer["error"]["type"]) == (405, "invalid_request_error")


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


async def test_a_record_that_fails_at_the_end_takes_the_reply_back_where_that_is_configured(qwen3: Renderer) -> None:
    journal = MemoryJournal()
    ids = qwen3.tokenizer.encode(f"a{END}")

    def script(_: Any) -> Any:
        journal.failure = "disk full"
        return deltas(ids)

    config = CollectorConfig(on_store_failure="refuse")
    async with serve(qwen3, ScriptedEngine(script), journal=journal, config=config) as served:
        status, _, answer = await post(served, "/v1/chat/completions", {"model": "model", "messages": HI})
        assert (status, answer["error"]["code"]) == (503, "not_recorded")
        journal.failure = None
        request = {"model": "model", "messages": HI, "stream": True}
        status, _, answer = await post(served, "/v1/chat/completions", request)
        assert '"code":"not_recorded"' in answer
        assert "[DONE]" not in answer


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


@pytest.mark.parametrize("content", ['"\\ud800"', '"\\u0000"', "[" * 20_000], ids=["surrogate", "nul", "deep"])
async def test_odd_text_is_served_or_refused_and_never_breaks_the_server(small: Renderer, content: str) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        body = b'{"model": "model", "messages": [{"role": "user", "content": %s}]}' % content.encode()
        status, _, answer = await post(served, "/v1/chat/completions", body)
        assert status in (200, 400), answer
        assert served.collector.capture.running == 0


async def test_deeply_nested_tools_are_refused_and_never_break_the_server(small: Renderer) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        for depth in (100, 900, 5_000):
            nested = b'{"a":' * depth + b"1" + b"}" * depth
            tool = b'{"type": "function", "function": {"name": "f", "parameters": %s}}' % nested
            body = b'{"model": "model", "messages": [{"role": "user", "content": "x"}], "tools": [%s]}' % tool
            status, _, answer = await post(served, "/v1/chat/completions", body)
            assert status in (200, 400), answer
            assert served.collector.capture.running == 0


async def metric(served: Served, line: str) -> float | None:
    """The value of one line of /metrics; None when it is not there."""
    async with aiohttp.ClientSession() as session, session.get(f"{served.url}/metrics") as answer:
        lines = dict(text.rsplit(" ", 1) for text in (await answer.text()).splitlines() if text[0] != "#")
    return float(lines[line]) if line in lines else None


async def test_cached_tokens_that_the_engine_does_not_tell_are_left_out_and_not_counted(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"a{END}")
    told = [None, 0, 5]
    engine = ScriptedEngine(*(lambda _, n=n: deltas(ids, cached_tokens=n) for n in [*told, *told, *told]))
    async with serve(small, engine) as served:
        request = {"model": "model", "messages": HI}
        usages = [(await post(served, "/v1/chat/completions", request))[2]["usage"] for _ in told]
        assert [usage.get("prompt_tokens_details") for usage in usages] == [
            None,
            {"cached_tokens": 0},
            {"cached_tokens": 5},
        ]
        assert "prompt_tokens_details" not in usages[0]
        streamed = {**request, "stream": True, "stream_options": {"include_usage": True}}
        texts = [(await post(served, "/v1/chat/completions", streamed))[2] for _ in told]
        assert ["cached_tokens" in text for text in texts] == [False, True, True]
        metas = [(await post(served, "/generate", {"input_ids": ids}))[2]["meta_info"] for _ in told]
        assert [meta.get("cached_tokens", "absent") for meta in metas] == ["absent", 0, 5]
        assert [turn.cached_tokens for turn in served.journal.turns] == [*told, *told, *told]
        assert await metric(served, 'roundhouse_tokens_total{kind="cached"}') == 15


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("failure", "status", "code"), FAILURES)
async def test_a_refusal_after_the_dispatch_is_counted_once(
    small: Renderer, failure: EngineError, status: int, code: str, stream: bool
) -> None:
    async with serve(small, ScriptedEngine(lambda _: [failure])) as served:
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI, "stream": stream})
        assert await refusals(served) == {str(status): 1.0}


async def refusals(served: Served) -> dict[str, float]:
    """Counted refusals by status."""
    family = next(f for f in served.collector.metrics.registry.collect() if f.name == "roundhouse_refusals")
    return {s.labels["status"]: s.value for s in family.samples if s.name.endswith("_total")}


async def test_every_answer_that_is_an_error_is_counted(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"a{END}")
    journal = MemoryJournal()

    def script(request: Any) -> Any:
        journal.failure = "disk full"
        return deltas(ids)

    config = CollectorConfig(on_store_failure="refuse", keys={sha256_of("key"): "a"})
    mine = {"authorization": "Bearer key"}
    async with serve(small, ScriptedEngine(script), journal=journal, config=config) as served:
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI}, **mine)
        assert await refusals(served) == {"503": 1.0}
        journal.failure = None
        status, _, answer = await post(served, "/v1/feedback", b"{}", **mine)
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
        assert await refusals(served) == {"503": 1.0, "400": 1.0}
        await post(served, "/v1/nothing", {})
        async with aiohttp.ClientSession() as session:
            for path in ("/v1/models", "/v1/models/x"):
                async with session.get(f"{served.url}{path}") as answer:
                    assert answer.status == 401
            async with session.get(f"{served.url}/v1/models/x", headers=mine) as answer:
                assert answer.status == 404
        assert await refusals(served) == {"503": 1.0, "400": 1.0, "404": 2.0, "401": 2.0}


async def test_a_request_nested_too_deeply_to_be_read_is_refused_and_counted(small: Renderer) -> None:
    def shape(_: bytes) -> Any:
        raise RecursionError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async with serve(small, replies(small, "a")) as served:
        scope: Any = {"type": "http", "method": "POST", "path": "/", "headers": []}
        await TurnEndpoint(served.collector, Turnstile(), shape, openai_problem)(scope, receive, send)
        assert (sent[0]["status"], b"too_deep" in sent[1]["body"]) == (400, True)
        assert await refusals(served) == {"400": 1.0}


async def test_a_refused_turn_that_is_not_stored_is_counted_and_has_no_receipt(small: Renderer) -> None:
    journal = MemoryJournal()
    long = {"model": "model", "messages": [{"role": "user", "content": "word " * 50}]}
    async with serve(small, replies(small, f"a{END}"), journal=journal, context_tokens=40) as served:
        journal.failure = "disk full"
        named = {"x-session-id": "s"}
        for _ in range(2):
            status, _, answer = await post(served, "/v1/chat/completions", long, **named)
            assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
        assert served.engine.requests == []
        assert await metric(served, 'roundhouse_unrecorded_total{table="turns"}') == 2
        assert await metric(served, 'roundhouse_untrainable_turns_total{reason="error"}') == 2
        assert await metric(served, 'roundhouse_turns_total{api="chat",finish_reason="error"}') == 2
        assert await refusals(served) == {"400": 2.0}
        assert served.collector.capture.running == 0
        journal.failure = None
        judgement = {"session_id": "s", "turn": 1, "kind": "thumb", "value": 1}
        assert (await post(served, "/v1/feedback", judgement))[0] == 404
        await post(served, "/v1/chat/completions", long, **named)
        assert await metric(served, 'roundhouse_unrecorded_total{table="turns"}') == 2
        assert (await post(served, "/v1/feedback", {**judgement, "turn": 3}))[0] == 200


async def test_a_turn_that_is_not_stored_is_continued_by_the_ids_and_is_nobodys_parent(small: Renderer) -> None:
    """What was sampled and shown goes on token by token; records name only what is on record."""
    journal = MemoryJournal()
    engine = replies(small, *(f"{text}{END}" for text in ("One.", "Two.", "Three.", "Four.")))
    async with serve(small, engine, journal=journal) as served:
        messages: list[Any] = [*HI]
        answers = []
        for failure in (None, "disk full", None, None):
            journal.failure = failure
            request = {"model": "model", "messages": messages}
            status, headers, answer = await post(served, "/v1/chat/completions", request, **{"x-session-id": "s"})
            assert (status, headers.get("x-roundhouse-recorded")) == (200, "false" if failure else None)
            answers.append(answer)
            messages = [*messages, answer["choices"][0]["message"], {"role": "user", "content": "On."}]
        asked, given = [request.input_ids for request in engine.requests], engine.given
        for before in range(3):
            whole = asked[before] + given[before]
            assert asked[before + 1][: len(whole)] == whole
        first, third, fourth = served.journal.turns
        assert [turn.turn for turn in served.journal.turns] == [1, 3, 4]
        assert [turn.link for turn in served.journal.turns] == ["root", "extends", "extends"]
        assert [turn.parent_turn_id for turn in served.journal.turns] == [None, first.turn_id, third.turn_id]
        judgement = {"kind": "thumb", "value": 1}
        found = [(await post(served, "/v1/feedback", {**judgement, "response_id": one["id"]}))[0] for one in answers]
        assert found == [200, 404, 200, 200]
        assert fourth.trainable


async def test_a_turn_that_continues_only_what_is_not_stored_is_a_root(small: Renderer) -> None:
    journal = MemoryJournal()
    engine = replies(small, f"One.{END}", f"Two.{END}")
    async with serve(small, engine, journal=journal) as served:
        journal.failure = "disk full"
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI})
        journal.failure = None
        messages = [*HI, {"role": "assistant", "content": "One."}, {"role": "user", "content": "On."}]
        await post(served, "/v1/chat/completions", {"model": "model", "messages": messages})
        (turn,) = served.journal.turns
        spliced = engine.requests[0].input_ids + engine.given[0]
        assert turn.prompt_ids[: len(spliced)] == spliced
        assert (turn.turn, turn.link, turn.break_kind, turn.parent_turn_id) == (2, "root", None, None)


async def test_a_client_that_leaves_before_the_record_fails_changes_nothing_of_what_is_counted(
    small: Renderer,
) -> None:
    journal = MemoryJournal()
    journal.held = []
    engine = replies(small, f"One.{END}", f"Two.{END}")
    async with serve(small, engine, journal=journal) as served:
        task = asyncio.create_task(post(served, "/v1/chat/completions", {"model": "model", "messages": HI}))
        await until(lambda: journal.held)
        task.cancel()
        await asyncio.sleep(0.1)
        assert served.collector.capture.running == 1
        (future, _), journal.held = journal.held[0], None
        future.set_exception(StoreError("disk full"))
        await until(lambda: served.collector.capture.running == 0)
        assert await metric(served, 'roundhouse_unrecorded_total{table="turns"}') == 1
        messages = [*HI, {"role": "assistant", "content": "One."}, {"role": "user", "content": "On."}]
        await post(served, "/v1/chat/completions", {"model": "model", "messages": messages})
        assert [(turn.link, turn.parent_turn_id) for turn in served.journal.turns] == [("root", None)]


@pytest.mark.parametrize(("stored", "link"), [(True, "extends"), (False, "root")])
async def test_a_turn_sent_before_the_last_one_is_durable_has_it_as_parent_only_if_it_becomes_so(
    small: Renderer, stored: bool, link: str
) -> None:
    journal = MemoryJournal()
    journal.held = []
    engine = replies(small, f"One.{END}", f"Two.{END}")
    async with serve(small, engine, journal=journal) as served:
        first = asyncio.create_task(post(served, "/v1/chat/completions", {"model": "model", "messages": HI}))
        await until(lambda: journal.held)
        messages = [*HI, {"role": "assistant", "content": "One."}, {"role": "user", "content": "On."}]
        second = asyncio.create_task(post(served, "/v1/chat/completions", {"model": "model", "messages": messages}))
        await asyncio.sleep(0.1)
        assert len(engine.requests) == 1
        if not stored:
            future, _ = journal.held.pop()
            future.set_exception(StoreError("disk full"))
        journal.let_go()
        assert [(await task)[0] for task in (first, second)] == [200, 200]
        turn = journal.turns[-1]
        assert (turn.turn, turn.link) == (2, link)
        assert turn.parent_turn_id == (journal.turns[0].turn_id if stored else None)
        whole = engine.requests[0].input_ids + engine.given[0]
        assert turn.prompt_ids[: len(whole)] == whole


@pytest.mark.parametrize(
    "part",
    [
        b'"model": "\\ud800"',
        b'"tools": [{"type": "function", "function": {"name": "\\ud800"}}]',
        b'"chat_template_kwargs": {"\\udc00": 1}',
        b'"stop": ["x\\ud800"]',
        b'"messages": [{"role": "user", "content": "\\uD800 "}]',
    ],
)
async def test_a_lone_surrogate_is_refused_wherever_it_stands(small: Renderer, part: bytes) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        body = b'{"model": "model", "messages": [{"role": "user", "content": "x"}], %s}' % part
        status, _, answer = await post(served, "/v1/chat/completions", body)
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
        assert "lone surrogate" in answer["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    ["", "{", "[1]", '{"a": "\\ud83d\\ude42"}', '{"a": "\\\\ud800"}', f'{{"a": {"[" * 63}{"]" * 63}}}', "{{[" * 30],
)
async def test_other_arguments_of_a_history_are_served(small: Renderer, arguments: str) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        body = {"model": "model", "messages": called(arguments), "tools": TOOLS}
        assert (await post(served, "/v1/chat/completions", body))[0] == 200


async def test_numbers_mean_the_same_in_both_shapes(small: Renderer) -> None:
    async with serve(small, replies(small, f"a{END}")) as served:
        for top_k, status, effective in (
            (5, 200, 5),
            (0, 200, -1),
            (2**30 - 1, 200, 2**30 - 1),
            (2**30, 200, -1),
            (2**63 - 1, 200, -1),
            (2**63, 400, None),
            (-2, 400, None),
        ):
            chat = {"model": "model", "messages": HI, "top_k": top_k}
            ids = {"input_ids": [1], "sampling_params": {"top_k": top_k}}
            for path, body in (("/v1/chat/completions", chat), ("/generate", ids)):
                assert (await post(served, path, body))[0] == status
                if status == 200:
                    assert served.journal.turns[-1].top_k == effective
        before = len(served.engine.requests)
        for name in ("max_new_tokens", "min_new_tokens", "sampling_seed", "top_k", "n"):
            for value in (2**63, 2**70, -(2**70)):
                body = {"input_ids": [1], "sampling_params": {name: value}}
                status, _, answer = await post(served, "/generate", body)
                assert (status, answer["error"]["param"]) == (400, name)
        for body in ({"input_ids": [2**70]}, {"input_ids": [-1]}, {"input_ids": [1] * 3, "lora_path": 2**70}):
            assert (await post(served, "/generate", body))[0] == 400
        assert len(served.engine.requests) == before


async def test_calls_over_the_limit_are_refused_before_they_wait_to_begin(small: Renderer) -> None:
    """However many come at once, no more wait than may run, and those that leave make room."""
    async with serve(small, replies(small, f"a{END}"), config=CollectorConfig(max_running=3)) as served:
        capture = served.collector.capture
        with ExitStack() as waiting:
            for _ in range(3):
                waiting.enter_context(capture.arriving())
            body = {"model": "model", "messages": [{"role": "user", "content": "a"}]}
            status, headers, answer = await post(served, "/v1/chat/completions", body)
            assert (status, answer["error"]["code"], "retry-after" in {name.lower() for name in headers}) == (
                503,
                "overloaded",
                True,
            )
            assert "0 turns are being served and 3 wait to begin" in answer["error"]["message"]
        assert (await post(served, "/v1/chat/completions", body))[0] == 200
