"""One reply among others: streaming, batching, the prefix cache, refusals and aborts; and what the engine is."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from collector.engine.client import EngineClient
from collector.engine.wire import SamplingParams, Span
from collector.errors import EngineError
from tests.engines.conftest import CONTEXT, Engine, Folders
from tests.engines.oracle import Oracle
from tests.engines.sampled import request, running, sample, until_idle

pytestmark = pytest.mark.timeout(300)  # the first one starts the engine
PROMPT = [257, *b"user\nName three rivers in Europe.", 258, 10]
GREEDY = SamplingParams(max_new_tokens=40, temperature=0.0, ignore_eos=True)
LONG = SamplingParams(max_new_tokens=1500, temperature=0.0, ignore_eos=True)


async def test_streamed_and_whole_replies_are_the_same(client: EngineClient) -> None:
    streamed = await sample(client, request(PROMPT, GREEDY))
    at_once = await sample(client, request(PROMPT, GREEDY, stream=False))
    assert streamed.deltas > 5
    assert at_once.deltas == 1
    assert (streamed.ids, streamed.finish, streamed.spans) == (at_once.ids, at_once.finish, at_once.spans)
    assert streamed.logprobs == pytest.approx(at_once.logprobs, abs=1e-4)


async def test_a_repeated_prefix_comes_from_the_cache(client: EngineClient, oracle: Oracle) -> None:
    prompt = [*b"once more", *PROMPT]
    assert await client.flush_cache()
    first = await sample(client, request(prompt, GREEDY))
    second = await sample(client, request(prompt, GREEDY))
    longer = [*prompt, *first.ids, *b"and more"]
    third = await sample(client, request(longer, GREEDY))
    assert first.cached_tokens == 0
    assert second.cached_tokens == len(prompt) - 1
    assert third.cached_tokens == len(prompt) + len(first.ids) - 1
    assert first.ids == second.ids
    for reply, asked in ((second, prompt), (third, longer)):
        assert reply.prompt_tokens == len(asked)
        assert reply.logprobs == pytest.approx(oracle.logprobs(asked, reply.ids, GREEDY), abs=1e-4)


async def test_a_mixed_batch_equals_solo_replies_and_plain_forwards(
    client: EngineClient, oracle: Oracle, adapters: dict[str, Path]
) -> None:
    sampled = SamplingParams(max_new_tokens=60, temperature=1.3, top_p=0.9, ignore_eos=True)
    wanted = [(prompt, name) for prompt in (PROMPT, PROMPT[3:], [*PROMPT, *PROMPT]) for name in (None, *adapters)]
    solo = [await sample(client, request(prompt, GREEDY, adapter=name)) for prompt, name in wanted]
    assert len({tuple(reply.ids) for reply in solo}) == len(solo)
    batch = await asyncio.gather(
        *(sample(client, request(prompt, GREEDY, adapter=name)) for prompt, name in wanted),
        *(sample(client, request(prompt, sampled, adapter=name)) for prompt, name in wanted),
    )
    for alone, among in zip(solo, batch[: len(solo)], strict=True):
        assert among.ids == alone.ids
        assert among.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    for (prompt, name), reply in zip(wanted, batch[len(solo) :], strict=True):
        expected = oracle.logprobs(prompt, reply.ids, sampled, adapters[name] if name else None)
        assert reply.logprobs == pytest.approx(expected, abs=1e-4)


async def test_spans_name_the_weights_of_every_token(client: EngineClient) -> None:
    reply = await sample(client, request(PROMPT, GREEDY))
    assert reply.spans == [Span(version=(await client.model_info()).weight_version, start=0, end=40)]


async def test_an_abort_by_rid_ends_that_reply_only(client: EngineClient, oracle: Oracle) -> None:
    one, two = request(PROMPT, LONG), request(PROMPT[1:], LONG)
    async with running(client, one) as left, running(client, two) as kept:
        await left.tokens(20)
        await client.abort(one.rid)
        reply = await left.end()
        assert reply.finish.type == "abort"
        assert 20 <= len(reply.ids) < 1500
        assert reply.logprobs == pytest.approx(oracle.logprobs(PROMPT, reply.ids, LONG), abs=1e-4)
        assert reply.spans == [Span(version="default", start=0, end=len(reply.ids))]
        count = await kept.tokens(0)
        await kept.tokens(count + 20)
    await client.abort("nobody has this rid")


async def test_an_abort_and_a_rid_that_begins_alike(engine: Engine, client: EngineClient) -> None:
    one = request(PROMPT, LONG)
    two = request(PROMPT, LONG, rid=one.rid + "0")
    async with running(client, one) as first, running(client, two) as second:
        await first.tokens(5)
        count = await second.tokens(5)
        await client.abort(one.rid)
        assert (await first.end()).finish.type == "abort"
        if engine.kind == "sglang":  # takes a rid for a prefix
            assert (await second.end()).finish.type == "abort"
        else:
            await second.tokens(count + 20)


async def test_a_client_that_leaves_frees_the_engine(engine: Engine, client: EngineClient) -> None:
    leaver = EngineClient(engine.url)
    async with contextlib.aclosing(leaver.generate(request(PROMPT, LONG))) as reply:
        await anext(reply)
        await until_running(client, 1)
    await until_idle(client)
    await leaver.close()


async def test_a_dropped_connection_frees_the_engine(engine: Engine, client: EngineClient) -> None:
    body = b'{"input_ids":[1,2,3],"sampling_params":{"max_new_tokens":1500,"ignore_eos":true},"stream":true}'
    reader, writer = await asyncio.open_connection("127.0.0.1", int(engine.url.rpartition(":")[2]))
    head = (
        f"POST /generate HTTP/1.1\r\nhost: e\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await reader.readuntil(b"data: ")
    await until_running(client, 1)
    writer.transport.abort()
    await until_idle(client)


async def until_running(client: EngineClient, count: int) -> None:
    """Waits until the engine samples for that many requests."""
    for _ in range(200):
        if sum(load.num_running_reqs for load in await client.loads()) == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"the engine did not come to run {count} requests")


async def test_a_rid_in_use_is_refused_and_its_first_owner_goes_on(client: EngineClient) -> None:
    wanted = request(PROMPT, LONG)
    async with running(client, wanted) as first:
        await first.tokens(5)
        with pytest.raises(EngineError, match=r"(?i)duplicate") as refused:
            await sample(client, wanted)
        assert refused.value.status == 400
        await asyncio.sleep(0.2)
        await first.tokens(await first.tokens(0) + 20)


@pytest.mark.parametrize("stream", [True, False])
async def test_what_cannot_be_served_is_refused_with_a_reason(client: EngineClient, stream: bool) -> None:
    cases = [
        (request([65] * (CONTEXT + 1), GREEDY, stream=stream), str(CONTEXT)),
        (request([], GREEDY, stream=stream), "input_ids"),
        (request(PROMPT, SamplingParams(top_p=1.5), stream=stream), "top_p"),
        (request(PROMPT, SamplingParams(top_k=0), stream=stream), "top_k"),
        (request(PROMPT, SamplingParams(temperature=-1.0), stream=stream), "temperature"),
        (request(PROMPT, SamplingParams(min_p=-0.5), stream=stream), "min_p"),
        (request(PROMPT, SamplingParams(repetition_penalty=0.0), stream=stream), "repetition_penalty"),
        (request(PROMPT, SamplingParams(logit_bias={"265": 1.0}), stream=stream), "logit_bias"),
        (request(PROMPT, GREEDY, adapter="nobody@1", stream=stream), "nobody@1"),
    ]
    for wanted, reason in cases:
        with pytest.raises(EngineError, match=reason) as refused:
            await sample(client, wanted)
        assert refused.value.status == 400


async def test_ids_outside_the_vocabulary(engine: Engine, client: EngineClient) -> None:
    wanted = request([65, 265], SamplingParams(max_new_tokens=1))
    if engine.kind == "sglang":  # answers as if nothing were wrong: who builds prompts has to check
        assert len((await sample(client, wanted)).ids) == 1
    else:
        with pytest.raises(EngineError, match="265") as refused:
            await sample(client, wanted)
        assert refused.value.status == 400


async def test_model_info_says_what_is_served(client: EngineClient, folders: Folders) -> None:
    info = await client.model_info()
    assert (info.model_path, info.weight_version) == (str(folders.model), "default")


async def test_the_cache_is_flushed_only_when_idle(client: EngineClient) -> None:
    prompt = [*b"flush me", *PROMPT]
    await sample(client, request(prompt, GREEDY))
    async with running(client, request(PROMPT, LONG)) as reply:
        await reply.tokens(1)
        assert not await client.flush_cache()
    await until_idle(client)
    assert await client.flush_cache()
    assert (await sample(client, request(prompt, GREEDY))).cached_tokens == 0
