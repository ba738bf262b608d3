"""New base weights: which tokens they sampled is said exactly, and no token is scored by the wrong ones."""

from collections.abc import AsyncGenerator

import pytest

from collector.engine.client import EngineClient
from collector.engine.wire import SamplingParams, Span
from collector.errors import EngineError
from tests.engines.conftest import Engine, Folders
from tests.engines.oracle import Oracle
from tests.engines.sampled import request, running, sample, until_idle

pytestmark = pytest.mark.timeout(300)  # the first one starts the engine
PROMPT = [257, *b"user\nTell me a long story.", 258, 10]
LONG = SamplingParams(max_new_tokens=600, temperature=0.0, ignore_eos=True)
SHORT = SamplingParams(max_new_tokens=40, temperature=0.0, ignore_eos=True)


@pytest.fixture(scope="module")
def other_oracle(folders: Folders) -> Oracle:
    return Oracle(folders.other_model)


@pytest.fixture
async def restored(client: EngineClient, folders: Folders) -> AsyncGenerator[None, None]:
    """Puts the first weights back, whatever the test did."""
    yield
    await client.resume()
    await until_idle(client)
    await client.update_weights_from_disk(folders.model, version="default")


@pytest.mark.usefixtures("restored")
async def test_an_idle_update_changes_the_weights_and_their_label(
    client: EngineClient, folders: Folders, other_oracle: Oracle
) -> None:
    await sample(client, request(PROMPT, SHORT))
    await client.update_weights_from_disk(folders.other_model, version="w1")
    assert (await client.model_info()).weight_version == "w1"
    reply = await sample(client, request(PROMPT, SHORT))
    assert reply.cached_tokens == 0
    assert reply.spans == [Span(version="w1", start=0, end=40)]
    assert reply.logprobs == pytest.approx(other_oracle.logprobs(PROMPT, reply.ids, SHORT), abs=1e-4)


@pytest.mark.usefixtures("restored")
async def test_a_retracted_reply_goes_on_with_the_new_weights_and_recomputed_keys(
    client: EngineClient, folders: Folders, oracle: Oracle, other_oracle: Oracle
) -> None:
    async with running(client, request(PROMPT, LONG)) as reply:
        await reply.tokens(10)
        await client.pause("retract")
        count = await reply.settled()
        await client.update_weights_from_disk(folders.other_model, version="w2")
        await client.resume()
        done = await reply.end()
    assert done.spans == [Span(version="default", start=0, end=count), Span(version="w2", start=count, end=600)]
    expected = [
        *oracle.logprobs(PROMPT, done.ids, LONG)[:count],
        *other_oracle.logprobs(PROMPT, done.ids, LONG)[count:],
    ]
    assert done.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.usefixtures("restored")
async def test_a_reply_held_in_place_keeps_the_old_keys(
    client: EngineClient, folders: Folders, oracle: Oracle, other_oracle: Oracle
) -> None:
    async with running(client, request(PROMPT, LONG)) as reply:
        await reply.tokens(10)
        await client.pause("in_place")
        count = await reply.settled()
        await client.update_weights_from_disk(folders.other_model, version="w3", flush_cache=False)
        await client.resume()
        done = await reply.end()
    assert done.spans == [Span(version="default", start=0, end=count), Span(version="w3", start=count, end=600)]
    assert done.logprobs[:count] == pytest.approx(oracle.logprobs(PROMPT, done.ids, LONG)[:count], abs=1e-4)
    for either in (oracle, other_oracle):
        assert done.logprobs[count:] != pytest.approx(either.logprobs(PROMPT, done.ids, LONG)[count:], abs=1e-3)


@pytest.mark.usefixtures("restored")
async def test_an_update_that_cannot_flush_what_is_held_in_place(
    engine: Engine, client: EngineClient, folders: Folders
) -> None:
    async with running(client, request(PROMPT, LONG)) as reply:
        await reply.tokens(10)
        await client.pause("in_place")
        count = await reply.settled()
        with pytest.raises(EngineError) as refused:
            await client.update_weights_from_disk(folders.other_model, version="w4", flush_cache=True)
        assert refused.value.status == 400
        label = (await client.model_info()).weight_version
        await client.resume()
        done = await reply.end()
    # Both refuse after the change, and the tokens say so. SGLang's own label is the old one until the next update.
    assert label == ("default" if engine.kind == "sglang" else "w4")
    assert done.spans == [Span(version="default", start=0, end=count), Span(version="w4", start=count, end=600)]


@pytest.mark.usefixtures("restored")
async def test_an_update_that_aborts_ends_replies_at_the_old_weights(client: EngineClient, folders: Folders) -> None:
    async with running(client, request(PROMPT, LONG)) as reply:
        await reply.tokens(10)
        # Without the flush: SGLang refuses it as long as its scheduler still holds what it has just aborted.
        await client.update_weights_from_disk(
            folders.other_model, version="w5", abort_all_requests=True, flush_cache=False
        )
        done = await reply.end()
    assert done.finish.type == "abort"
    assert done.spans == [Span(version="default", start=0, end=len(done.ids))]


async def test_a_folder_without_a_model_is_refused_and_the_old_weights_serve_on(
    client: EngineClient, folders: Folders, oracle: Oracle
) -> None:
    with pytest.raises(EngineError) as refused:
        await client.update_weights_from_disk(folders.model.parent / "no-such-model", version="w6")
    assert refused.value.status == 400
    assert (await client.model_info()).weight_version == "default"
    reply = await sample(client, request(PROMPT, SHORT))
    assert reply.logprobs == pytest.approx(oracle.logprobs(PROMPT, reply.ids, SHORT), abs=1e-4)
