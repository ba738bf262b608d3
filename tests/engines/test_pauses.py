"""Pausing: what becomes of the replies under way, and that nothing is lost or sampled twice."""

import asyncio

import msgspec
import pytest

from collector.engine.client import EngineClient
from collector.engine.wire import PauseMode, SamplingParams, Span
from tests.engines.conftest import Engine
from tests.engines.oracle import Oracle
from tests.engines.sampled import request, running, sample

pytestmark = pytest.mark.timeout(300)  # the first one starts the engine
PROMPT = [257, *b"user\nCount to one hundred.", 258, 10]
GREEDY = SamplingParams(max_new_tokens=600, temperature=0.0, ignore_eos=True)


async def test_a_pause_that_aborts_ends_replies_with_what_they_have(client: EngineClient, oracle: Oracle) -> None:
    async with running(client, request(PROMPT, GREEDY)) as reply:
        await reply.tokens(10)
        await client.pause("abort")
        done = await reply.end()
    await client.resume()
    assert done.finish.type == "abort"
    assert 10 <= len(done.ids) < 600
    assert done.spans == [Span(version="default", start=0, end=len(done.ids))]
    assert done.logprobs == pytest.approx(oracle.logprobs(PROMPT, done.ids, GREEDY), abs=1e-4)


@pytest.mark.parametrize("mode", ["retract", "in_place"])
async def test_a_paused_reply_goes_on_where_it_was(client: EngineClient, oracle: Oracle, mode: PauseMode) -> None:
    async with running(client, request(PROMPT, GREEDY)) as reply:
        await reply.tokens(10)
        await client.pause(mode)
        count = await reply.settled()
        assert 10 <= count < 600
        await asyncio.sleep(0.3)
        assert await reply.tokens(0) == count
        # A queued reply does not hold the cache, a held one does.
        assert await client.flush_cache() == (mode == "retract")
        await client.resume()
        done = await reply.end()
    assert len(done.ids) == 600
    assert done.logprobs == pytest.approx(oracle.logprobs(PROMPT, done.ids, GREEDY), abs=1e-4)
    assert done.ids == (await sample(client, request(PROMPT, GREEDY))).ids


@pytest.mark.parametrize("mode", ["abort", "retract", "in_place"])
async def test_a_request_during_a_pause_waits(client: EngineClient, mode: PauseMode) -> None:
    short = msgspec.structs.replace(GREEDY, max_new_tokens=40)
    await client.pause(mode)
    assert not await client.ready()
    async with running(client, request(PROMPT, short)) as reply:
        await asyncio.sleep(0.5)
        assert await reply.tokens(0) == 0
        await client.resume()
        assert len((await reply.end()).ids) == 40
    assert await client.ready()


async def test_an_abort_while_paused(engine: Engine, client: EngineClient, oracle: Oracle) -> None:
    for mode in ("retract", "in_place"):
        wanted = request(PROMPT, GREEDY)
        async with running(client, wanted) as reply:
            await reply.tokens(10)
            await client.pause(mode)
            count = await reply.settled()
            await client.abort(wanted.rid)
            await asyncio.sleep(0.3)
            await client.resume()
            done = await reply.end()
        assert done.finish.type == "abort"
        assert count <= len(done.ids) <= count + 1
        assert done.logprobs == pytest.approx(oracle.logprobs(PROMPT, done.ids, GREEDY), abs=1e-4)
        assert done.spans == [Span(version="default", start=0, end=len(done.ids))]
