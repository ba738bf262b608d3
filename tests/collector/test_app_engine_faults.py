"""An engine that fails, ends early or lies, before and after the first token."""

import openai
import pytest

from collector.engine.wire import Finish
from collector.errors import EngineError, EngineUnavailable
from collector.fakes import ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from tests.collector.chat_calls import END, HI, metric, openai_client, refusals
from tests.collector.loopback import post, serve

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
