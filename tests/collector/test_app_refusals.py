"""Requests that are refused: what the client is told, and what is counted of it."""

from contextlib import ExitStack
from typing import Any

import aiohttp
import openai
import pytest

from collector.app import TurnEndpoint
from collector.config import CollectorConfig
from collector.fakes import MemoryJournal, ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.rendering.renderer import Renderer
from collector.shapes.problem import openai_problem
from collector.turnstile import Turnstile
from tests.collector.chat_calls import END, HI, TOOLS, openai_client, refusals, replies
from tests.collector.loopback import post, serve

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


async def test_a_request_that_is_too_large_is_refused_unread(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, "a"), config=CollectorConfig(max_request_bytes=1000)) as served:
        status, _, answer = await post(served, "/v1/chat/completions", b"x" * 1001)
        assert (status, answer["error"]["code"]) == (413, "request_too_large")


async def test_unknown_paths_and_methods_are_told_so_in_openais_shape(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, "a")) as served:
        assert (await post(served, "/v1/nothing", {}))[0] == 404
        status, _, answer = await post(served, "/health", {})
        assert (status, answer["error"]["type"]) == (405, "invalid_request_error")


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
