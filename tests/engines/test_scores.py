"""Log-probabilities of given tokens: those of a plain forward pass, and which of them come from the prefix cache."""

import uuid
from pathlib import Path

import pytest

from collector.engine.client import EngineClient
from collector.engine.wire import SamplingParams
from collector.errors import EngineError
from tests.engines.conftest import Folders
from tests.engines.oracle import Oracle
from tests.engines.sampled import request, running, sample
from trainer.tiny_model import VOCAB_SIZE

pytestmark = pytest.mark.timeout(300)  # the first one starts the engine
IDS = [257, *b"user\nScore these words, and sample none.", 258, 10, VOCAB_SIZE - 1, 10]
LONG = [257, *(b"The same words again and again. " * 10), 258]
AT_1 = SamplingParams()
TOLERANCE = 1e-4


@pytest.mark.parametrize("ids", [IDS, LONG], ids=["one step", "several prefill steps"])
async def test_scores_of_base_and_adapters_equal_a_plain_forward(
    client: EngineClient, oracle: Oracle, adapters: dict[str, Path], ids: list[int]
) -> None:
    for name, folder in [(None, None), *adapters.items()]:
        found = await client.score(ids, rid=uuid.uuid4().hex, lora_path=name)
        assert found.logprobs == pytest.approx(oracle.logprobs(ids[:1], ids[1:], AT_1, folder), abs=TOLERANCE)
        assert found.cached_tokens == 0


async def test_scoring_from_the_start_takes_nothing_from_the_cache_and_fills_it(
    client: EngineClient, oracle: Oracle, adapters: dict[str, Path]
) -> None:
    await client.flush_cache()
    name, folder = next(iter(adapters.items()))
    for _ in range(2):
        assert (await client.score(IDS, rid=uuid.uuid4().hex, lora_path=name)).cached_tokens == 0
    greedy = SamplingParams(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    reply = await sample(client, request(IDS, greedy, adapter=name))
    assert reply.cached_tokens == len(IDS) - 1
    assert reply.logprobs == pytest.approx(oracle.logprobs(IDS, reply.ids, greedy, folder), abs=TOLERANCE)


async def test_scoring_from_a_later_token_uses_the_cache_before_it(client: EngineClient, oracle: Oracle) -> None:
    await client.flush_cache()
    await client.score(IDS, rid=uuid.uuid4().hex)
    found = await client.score(IDS, rid=uuid.uuid4().hex, start=20)
    assert found.cached_tokens == 20
    assert found.logprobs == pytest.approx(oracle.logprobs(IDS[:21], IDS[21:], AT_1), abs=TOLERANCE)
    assert (await client.score(IDS, rid=uuid.uuid4().hex, start=len(IDS) - 1)).logprobs == []


async def test_scores_beside_running_replies_are_the_same(
    client: EngineClient, oracle: Oracle, adapters: dict[str, Path]
) -> None:
    story = SamplingParams(max_new_tokens=60, temperature=1.0, ignore_eos=True)
    async with running(client, request(LONG, story, adapter="bob@1")) as reply:
        await reply.tokens(5)
        found = await client.score(LONG, rid=uuid.uuid4().hex, lora_path="ada@1")
        done = await reply.end()
    assert found.logprobs == pytest.approx(oracle.logprobs(LONG[:1], LONG[1:], AT_1, adapters["ada@1"]), abs=TOLERANCE)
    assert done.logprobs == pytest.approx(oracle.logprobs(LONG, done.ids, story, adapters["bob@1"]), abs=TOLERANCE)


async def test_a_start_beyond_the_input_is_refused(client: EngineClient) -> None:
    with pytest.raises(EngineError, match="logprob_start_len") as refused:
        await client.score(IDS, rid=uuid.uuid4().hex, start=len(IDS) + 1)
    assert refused.value.status == 400


async def test_the_loaded_adapters_are_listed_with_their_folders(
    client: EngineClient, folders: Folders, adapters: dict[str, Path]
) -> None:
    assert await client.loaded_adapters() == {name: str(folder) for name, folder in adapters.items()}
    await client.load_adapter("pinned@1", folders.cyd, pinned=True)
    assert (await client.loaded_adapters())["pinned@1"] == str(folders.cyd)
    await client.unload_adapter("pinned@1")
    assert set(await client.loaded_adapters()) == set(adapters)
