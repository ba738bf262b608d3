"""SGLang as it streams by default, every event repeating the whole reply, with a model of another family."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from collector.engine.client import EngineClient
from collector.engine.wire import SamplingParams
from tests.engines.conftest import CONTEXT, sglang_command, start_sglang
from tests.engines.oracle import Oracle
from tests.engines.sampled import request, running, sample
from trainer.tiny_model import write_tiny_adapter, write_tiny_model

pytestmark = [pytest.mark.timeout(300), pytest.mark.sglang]
PROMPT = [257, *b"user\nRepeat yourself.", 258, 10]
GREEDY = SamplingParams(max_new_tokens=300, temperature=0.0, ignore_eos=True)


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "qwen2", family="qwen2", seed=5, context=CONTEXT)


@pytest.fixture
async def client(request: pytest.FixtureRequest, qwen: Path, tmp_path: Path) -> AsyncGenerator[EngineClient, None]:
    with start_sglang(sglang_command(request.config, qwen), tmp_path / "sglang.log") as url:
        client = EngineClient(url, idle_timeout_s=30)
        try:
            yield client
        finally:
            await client.close()


async def test_repeating_events_give_each_token_once(client: EngineClient, qwen: Path, tmp_path: Path) -> None:
    oracle = Oracle(qwen)
    streamed = await sample(client, request(PROMPT, GREEDY))
    at_once = await sample(client, request(PROMPT, GREEDY, stream=False))
    assert streamed.deltas > 20
    assert (streamed.ids, streamed.finish, streamed.spans) == (at_once.ids, at_once.finish, at_once.spans)
    assert streamed.logprobs == pytest.approx(oracle.logprobs(PROMPT, streamed.ids, GREEDY), abs=1e-4)

    adapter = write_tiny_adapter(tmp_path / "adapter", qwen, rank=8, seed=6)
    await client.load_adapter("qwen@1", adapter)
    adapted = await sample(client, request(PROMPT, GREEDY, adapter="qwen@1"))
    assert adapted.logprobs == pytest.approx(oracle.logprobs(PROMPT, adapted.ids, GREEDY, adapter), abs=1e-4)
    assert adapted.ids != streamed.ids

    # The abort of a queued reply repeats it once more.
    wanted = request(PROMPT, GREEDY)
    async with running(client, wanted) as reply:
        await reply.tokens(10)
        await client.pause("retract")
        count = await reply.settled()
        await client.abort(wanted.rid)
        aborted = await reply.end()
        await client.resume()
    assert aborted.finish.type == "abort"
    assert aborted.ids == streamed.ids[:count]

    # A rid that is used again is aborted 2 s after its first stream has ended.
    again = request(PROMPT, msgspec.structs.replace(GREEDY, max_new_tokens=1), rid="again")
    await sample(client, again)
    longer = await sample(client, request(PROMPT, msgspec.structs.replace(GREEDY, max_new_tokens=2000), rid="again"))
    assert longer.finish.type == "abort"
