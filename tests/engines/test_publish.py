"""A whole swap under traffic on both engines: loaded, proved, routed, drained, unloaded, and the old name refused."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from collector.engine.client import EngineClient
from collector.engine.wire import SamplingParams
from collector.records import Route, Turn, VersionSpan
from collector.registry_watch import watching
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.served_model import ServedModel
from collector.store.registry import Registry
from tests.collector.loopback import Served, post, serve, until
from tests.engines.conftest import Engine, Folders
from tests.engines.oracle import Oracle
from tests.engines.sampled import request, running, until_idle
from tests.trainer.publish.tampering import tampering
from trainer.adapters import wait_for_readers
from trainer.policy import Policy
from trainer.publish.policy_probe import PolicyPredictor, make_probe, read_published
from trainer.publish.probe import Probe
from trainer.publish.publisher import Publisher, PublishError
from trainer.publish_config import PublishConfig
from trainer.tiny_model import VOCAB_SIZE

pytestmark = pytest.mark.timeout(300)  # the first one starts the engine
CONFIG = PublishConfig(load_limit_s=60, prove_limit_s=60, unload_limit_s=60, settle_s=0.2)
WHO = {"actor": "test", "reason": "test"}


@pytest.fixture(scope="module")
def policy(folders: Folders) -> Policy:
    torch.set_num_threads(1)
    return Policy(AutoModelForCausalLM.from_pretrained(folders.model, dtype=torch.float32))


def probe_of(policy: Policy, new: Path, previous: Path | None) -> Probe:
    rng = np.random.default_rng(11)
    contexts = [rng.integers(0, VOCAB_SIZE, 60).tolist() for _ in range(4)]
    before = None if previous is None else read_published(policy, previous, "bot")
    predictor = PolicyPredictor(policy, read_published(policy, new, "bot"), before)
    return make_probe(predictor, contexts, tokens=CONFIG.probe_tokens)


class Line(NamedTuple):
    """A collector in front of the engine, following a registry with one adapter."""

    served: Served
    registry: Registry
    store: Path
    publisher: Publisher

    def register(self, version: int, state: str) -> None:
        (self.store / f"bot-{version}").mkdir()
        self.registry.register_version(
            "bot", version, parent=version - 1, optimizer_step=version, folder=f"bot-{version}", sha256="0" * 64,
            trained_on=[], **WHO,
        )  # fmt: skip
        self.registry.change_state("bot", version, expected="candidate", to=state, **WHO)

    def route(self, version: int) -> int:
        before = self.registry.snapshot().route_revisions.get("dev", 0)
        route = Route(tenant="dev", adapter="bot", version=version)
        return self.registry.replace_routes("dev", [route], expected_revision=before, **WHO)

    async def ask(self, text: str, *, model: str = "model", max_tokens: int = 12) -> tuple[int, Any]:
        body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens}
        body["ignore_eos"] = True
        status, _, answer = await post(self.served, "/v1/chat/completions", body)
        return status, answer


@pytest.fixture
async def line(engine: Engine, client: EngineClient, folders: Folders, tmp_path: Path) -> AsyncGenerator[Line, None]:
    publisher = Publisher([engine.url], CONFIG)
    with Registry(tmp_path) as registry:
        registry.register_adapter("bot", tenant="dev", base_model="model", **WHO)
        routes = RegistryRoutes(["model"], registry.snapshot())
        renderer = Renderer.from_folder(folders.model)
        async with (
            watching(registry, routes, "collector"),
            serve(
                renderer,
                client,
                routes=routes,
                context_tokens=2048,
                served_model=ServedModel(client, folders.model),
            ) as served,  # type: ignore[arg-type]
        ):
            yield Line(served, registry, tmp_path, publisher)
    await until_idle(client)
    for name in await client.loaded_adapters():
        await client.unload_adapter(name)


def is_sampled_by(oracle: Oracle, turn: Turn, folder: Path | None) -> bool:
    expected = oracle.logprobs(turn.prompt_ids, turn.completion_ids, SamplingParams(), folder)
    return turn.sampled_logprobs == pytest.approx(expected, abs=1e-4)


async def test_a_swap_under_traffic(line: Line, policy: Policy, folders: Folders, oracle: Oracle) -> None:
    publisher, registry = line.publisher, line.registry
    await asyncio.to_thread(publisher.load, "bot@1", folders.ada)
    first = await asyncio.to_thread(lambda: publisher.prove(probe_of(policy, folders.ada, None), "bot@1", known=None))
    assert first.may_route, first.text
    line.register(1, "live")
    revision = line.route(1)
    await until(lambda: not registry.behind(revision))
    early = [asyncio.create_task(line.ask(f"Tell story {n}", max_tokens=150)) for n in range(6)]
    await asyncio.sleep(0.3)

    # The next version comes under a name of its own, while six replies of the last one are under way.
    await asyncio.to_thread(publisher.load, "bot@2", folders.bob)
    second = await asyncio.to_thread(
        lambda: publisher.prove(probe_of(policy, folders.bob, folders.ada), "bot@2", known="bot@1")
    )
    assert second.may_route, second.text
    line.register(2, "live")
    line.route(2)
    registry.change_state("bot", 1, expected="live", to="retired", **WHO)
    revision = registry.revision()
    assert await asyncio.to_thread(wait_for_readers, registry, revision, CONFIG.acknowledge_limit_s) == []
    await asyncio.sleep(CONFIG.settle_s)
    assert (await asyncio.to_thread(publisher.unload, "bot@1")).left_behind == {}
    late = [await line.ask(f"Hello {n}") for n in range(3)]
    assert [status for status, _ in [*await asyncio.gather(*early), *late]] == [200] * 9

    turns = line.served.journal.turns
    assert [turn.adapter_version for turn in turns] == [1] * 6 + [2] * 3
    folder_of = {1: folders.ada, 2: folders.bob}
    assert all(is_sampled_by(oracle, turn, folder_of[turn.adapter_version or 0]) for turn in turns)
    # SGLang would load the old name again: the collector does not let it through.
    status, answer = await line.ask("Hello", model="bot@1")
    assert status == 404
    assert answer["error"]["code"] == "model_not_found"
    assert set((await asyncio.to_thread(publisher.loaded))[publisher.workers[0]]) == {"bot@2"}


async def test_an_unload_under_load_is_bounded_and_the_reply_finishes(
    engine: Engine, client: EngineClient, folders: Folders, oracle: Oracle
) -> None:
    publisher = Publisher([engine.url], msgspec.structs.replace(CONFIG, unload_limit_s=0.5))
    await asyncio.to_thread(publisher.load, "bot@1", folders.ada)
    sampling = SamplingParams(max_new_tokens=900, ignore_eos=True)
    prompt = [257, *b"user\nA long story, please.", 258, 10]
    async with running(client, request(prompt, sampling, adapter="bot@1")) as reply:
        await reply.tokens(5)
        left = await asyncio.to_thread(publisher.unload, "bot@1")
        done = await reply.end()
    assert len(done.ids) == 900
    assert "left behind" in left.left_behind[engine.url]
    assert done.logprobs[:60] == pytest.approx(oracle.logprobs(prompt, done.ids[:60], sampling, folders.ada), abs=1e-4)
    async with asyncio.timeout(30):  # the engine does by itself what it was asked
        while await client.loaded_adapters():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_worker_without_a_free_slot_says_so(engine: Engine, line: Line, folders: Folders) -> None:
    if engine.kind == "embedded":
        pytest.skip("this engine was started with many slots; tests/trainer/publish fills one")
    await asyncio.to_thread(line.publisher.load, "bot@1", folders.ada)
    await asyncio.to_thread(line.publisher.load, "bot@2", folders.bob)
    with pytest.raises(PublishError, match=r"all 2 adapter slots are taken, by bot@1, bot@2, .*; bot@1 could be"):
        await asyncio.to_thread(lambda: line.publisher.load("bot@3", folders.cyd, in_use=["bot@2"]))


@pytest.mark.parametrize(("instead", "served"), [("bot@1", "previous"), (None, "base")])
async def test_another_version_under_the_new_name_is_refuted(
    engine: Engine, line: Line, policy: Policy, folders: Folders, instead: str | None, served: str
) -> None:
    def other(order: dict[str, Any]) -> None:
        order["lora_path"] = instead if order["lora_path"] == "bot@2" else order["lora_path"]

    await asyncio.to_thread(line.publisher.load, "bot@1", folders.ada)
    await asyncio.to_thread(line.publisher.load, "bot@2", folders.bob)
    with tampering(engine.url, asked=other) as url:
        probe = probe_of(policy, folders.bob, folders.ada)
        proof = await asyncio.to_thread(lambda: Publisher([url], CONFIG).prove(probe, "bot@2", known="bot@1"))
    assert (proof.verdict, proof.workers[0].served) == ("refuted", served), proof.text


async def test_new_base_weights_in_mid_stream_are_in_the_spans_of_the_turn(
    client: EngineClient, line: Line, folders: Folders
) -> None:
    try:
        asking = asyncio.create_task(line.ask("A story that is cut in two", max_tokens=900))
        async with asyncio.timeout(20):
            while not sum(load.num_running_reqs for load in await client.loads()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        await client.pause("retract")
        await client.update_weights_from_disk(folders.other_model, version="w2")
        await client.resume()
        status, _ = await asking
    finally:
        await client.resume()
        await until_idle(client)
        await client.update_weights_from_disk(folders.model, version="default")
    assert status == 200
    (turn,) = line.served.journal.turns
    spans = turn.weight_versions
    assert [span.version for span in spans] == ["default", "w2"]
    assert (spans[0].start, spans[0].end, spans[1].end) == (0, spans[1].start, len(turn.completion_ids))
    assert isinstance(spans[0], VersionSpan)
