"""Adapters come and go by name: never a wrong one, and never the cached keys and values of another."""

import shutil
from pathlib import Path

import pytest

from collector.engine.client import EngineClient
from collector.engine.wire import SamplingParams
from collector.errors import EngineError
from tests.engines.conftest import Engine, Folders
from tests.engines.oracle import Oracle
from tests.engines.sampled import Sampled, request, running, sample

pytestmark = pytest.mark.timeout(300)  # the first one starts the engine
PROMPT = [257, *b"user\nWhich adapter are you? Say it in full sentences.", 258, 10]
GREEDY = SamplingParams(max_new_tokens=24, temperature=0.0, ignore_eos=True)


def is_from(oracle: Oracle, reply: Sampled, folder: Path | None) -> bool:
    """Whether the reply has the log-probabilities of that adapter, or of the base model."""
    return reply.logprobs == pytest.approx(oracle.logprobs(PROMPT, reply.ids, GREEDY, folder), abs=1e-4)


async def test_a_name_in_use_is_refused_and_goes_on_serving(
    client: EngineClient, oracle: Oracle, folders: Folders, adapters: dict[str, Path]
) -> None:
    with pytest.raises(EngineError, match=r"ada@1.*already loaded") as refused:
        await client.load_adapter("ada@1", folders.cyd)
    assert refused.value.status == 400
    assert is_from(oracle, await sample(client, request(PROMPT, GREEDY, adapter="ada@1")), folders.ada)


async def test_a_folder_without_an_adapter_is_refused(client: EngineClient, folders: Folders) -> None:
    with pytest.raises(EngineError) as refused:
        await client.load_adapter("none@1", folders.model.parent / "no-such-folder")
    assert refused.value.status == 400
    with pytest.raises(EngineError, match="none@1"):
        await sample(client, request(PROMPT, GREEDY, adapter="none@1"))


async def test_a_name_that_was_never_loaded_cannot_be_unloaded(client: EngineClient) -> None:
    with pytest.raises(EngineError, match="never@1") as refused:
        await client.unload_adapter("never@1")
    assert refused.value.status == 400


async def test_base_and_adapters_share_no_cached_prefix(client: EngineClient, adapters: dict[str, Path]) -> None:
    await client.flush_cache()
    for name in (None, *adapters):
        assert (await sample(client, request(PROMPT, GREEDY, adapter=name))).cached_tokens == 0
    for name in (None, *adapters):
        assert (await sample(client, request(PROMPT, GREEDY, adapter=name))).cached_tokens == len(PROMPT) - 1


async def test_new_weights_under_an_old_name_leave_nothing_stale(
    client: EngineClient, oracle: Oracle, folders: Folders
) -> None:
    for folder in (folders.ada, folders.bob, folders.ada):
        await client.load_adapter("again@1", folder)
        first = await sample(client, request(PROMPT, GREEDY, adapter="again@1"))
        assert first.cached_tokens == 0
        assert is_from(oracle, first, folder)
        assert (await sample(client, request(PROMPT, GREEDY, adapter="again@1"))).cached_tokens == len(PROMPT) - 1
        await client.unload_adapter("again@1")


async def test_a_new_version_leaves_nothing_stale(client: EngineClient, oracle: Oracle, folders: Folders) -> None:
    for version, folder in enumerate((folders.cyd, folders.ada)):
        await client.load_adapter(f"line@{version}", folder)
    for version, folder in enumerate((folders.cyd, folders.ada)):
        reply = await sample(client, request(PROMPT, GREEDY, adapter=f"line@{version}"))
        assert reply.cached_tokens == 0
        assert is_from(oracle, reply, folder)
    for version in (0, 1):
        await client.unload_adapter(f"line@{version}")


async def test_a_retired_name(
    engine: Engine, client: EngineClient, oracle: Oracle, folders: Folders, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders.ada, tmp_path / "retired"))
    await client.load_adapter("retired@1", folder)
    await client.unload_adapter("retired@1")
    shutil.rmtree(folder)
    shutil.copytree(folders.bob, folder)
    wanted = request(PROMPT, GREEDY, adapter="retired@1")
    if engine.kind == "sglang":  # loads the folder once more, whatever is in it now: retired names must not reach it
        assert is_from(oracle, await sample(client, wanted), folders.bob)
        await client.unload_adapter("retired@1")
    else:
        with pytest.raises(EngineError, match="retired@1") as refused:
            await sample(client, wanted)
        assert refused.value.status == 400


async def test_unloading_waits_for_running_replies(client: EngineClient, oracle: Oracle, folders: Folders) -> None:
    await client.load_adapter("busy@1", folders.ada)
    sampling = SamplingParams(max_new_tokens=600, temperature=0.0, ignore_eos=True)
    async with running(client, request(PROMPT, sampling, adapter="busy@1")) as reply:
        await reply.tokens(5)
        await client.unload_adapter("busy@1")
        done = await reply.end()
    assert len(done.ids) == 600
    assert done.logprobs == pytest.approx(oracle.logprobs(PROMPT, done.ids, sampling, folders.ada), abs=1e-4)
