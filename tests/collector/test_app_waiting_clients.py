"""Clients that wait, and clients that leave before their reply is whole."""

import asyncio
from typing import Any

import pytest

from collector.config import CollectorConfig
from collector.errors import EngineUnavailable
from collector.fakes import Pause, ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from collector.turnstile import Turnstile
from tests.collector.chat_calls import END, HI, openai_client
from tests.collector.loopback import Served, post, serve, until


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
