"""Turns that the store does not take: who is served all the same, and what goes on from them."""

import asyncio
from typing import Any

import aiohttp
import pytest

from collector.config import CollectorConfig
from collector.errors import StoreError
from collector.fakes import MemoryJournal, ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from tests.collector.chat_calls import END, HI, metric, refusals, replies
from tests.collector.loopback import post, serve, until


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
