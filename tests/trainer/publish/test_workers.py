"""A collector before two embedded engines over HTTP: one ends while it streams, and comes back without its adapters."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.engine.client import EngineClient
from collector.past import StoredPast
from collector.records import Route
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.served_model import ServedModel
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.writer import Writer
from collector.workers.fleet import Fleet
from collector.workers.reconcile import Reconciler
from collector.workers.worker import Worker
from tests.collector.loopback import Served, post, serve, until
from tests.trainer.engine.loopback import serving
from tests.trainer.publish.probe_setting import CONFIG, Setting
from trainer.engine_config import EngineConfig
from trainer.publish.policy_probe import PolicyPredictor, make_probe, read_published
from trainer.publish.publisher import Publisher
from trainer.tiny_model import write_tiny_adapter

pytestmark = pytest.mark.timeout(240)
WHY: dict[str, Any] = {"actor": "test", "reason": "test"}
NAME = "ada@1"


def published(store: Path, setting: Setting) -> Registry:
    """A registry whose one tenant is routed to a version that lies in the store."""
    write_tiny_adapter(store / "ada-1", setting.model, rank=4, seed=1)
    registry = Registry(store)
    registry.register_adapter("ada", tenant="dev", base_model="model", **WHY)
    registry.register_version(
        "ada", 1, parent=0, optimizer_step=1, folder="ada-1", sha256="0" * 64, trained_on=[], **WHY
    )
    registry.change_state("ada", 1, expected="candidate", to="live", **WHY)
    registry.replace_routes("dev", [Route(tenant="dev", adapter="ada", version=1)], expected_revision=0, **WHY)
    return registry


def prove(store: Path, setting: Setting, writer: Writer, *urls: str) -> None:
    """What a trainer does: loads, proves by the model's own predictions, and writes what it found."""
    folder = store / "ada-1"
    publisher = Publisher(urls, CONFIG)
    publisher.load(NAME, folder)
    contexts = [list(range(start, start + 60)) for start in (1, 40, 80, 120)]
    predictor = PolicyPredictor(setting.policy, read_published(setting.policy, folder, "ada"), None)
    proof = publisher.prove(make_probe(predictor, contexts, tokens=CONFIG.probe_tokens), NAME, known=None)
    assert proof.verdict == "proved", proof.text
    for event in proof.events():
        writer.append(event).result(30)


@asynccontextmanager
async def collecting(
    store: Path, setting: Setting, registry: Registry, writer: Writer, *urls: str
) -> AsyncGenerator[tuple[Served, Reconciler, list[Worker]]]:
    """A collector before these workers."""
    clients = [EngineClient(url, connect_timeout_s=1.0) for url in urls]
    workers = [
        Worker(url, client, ServedModel(client, setting.model)) for url, client in zip(urls, clients, strict=True)
    ]
    routes = RegistryRoutes(["model"], registry.snapshot())
    reconciler = Reconciler(
        tuple(workers), store=store, registry=lambda: routes.snapshot, tell=writer.append, look_every_s=0.1
    )
    following = asyncio.create_task(reconciler.run())
    renderer = Renderer.from_folder(setting.model)
    fleet = Fleet(workers, reconciler)
    async with serve(
        renderer,
        clients[0],
        journal=writer,
        past=StoredPast(store),
        routes=routes,
        fleet=fleet,
        context_tokens=512,  # type: ignore[arg-type]
    ) as served:
        yield served, reconciler, workers
    following.cancel()
    await asyncio.gather(*(client.close() for client in clients))


async def test_an_engine_that_ends_and_comes_back_serves_a_version_again_only_once_it_is_proved_again(
    setting: Setting, tmp_path: Path
) -> None:
    settings = EngineConfig(model=str(setting.model), max_adapters=3)
    with (
        ExitStack() as both,
        ExitStack() as one,
        Writer(tmp_path, "collector") as writer,
        Writer(tmp_path, "trainer") as trainer,
    ):
        first = one.enter_context(serving(settings))
        second = both.enter_context(serving(settings))
        registry = both.enter_context(published(tmp_path, setting))
        await asyncio.to_thread(prove, tmp_path, setting, trainer, first.url, second.url)
        async with collecting(tmp_path, setting, registry, writer, first.url, second.url) as (served, reconciler, made):

            async def say(session: str, tokens: int = 4) -> int:
                sampling = {"max_new_tokens": tokens, "ignore_eos": True}
                body = {"input_ids": list(b"hello"), "sampling_params": sampling}
                return (await post(served, "/generate", body, **{"x-session-id": session}))[0]

            await until(lambda: all(reconciler.why_not(worker, NAME) is None for worker in made))
            assert [await say(f"s{number}") for number in range(10)] == [200] * 10
            at_first = first.engine.load.requests_total
            assert at_first > 0
            running = [asyncio.create_task(say(f"s{number}", 400)) for number in range(10)]
            await until(lambda: made[0].running)
            await asyncio.to_thread(one.close)
            await asyncio.gather(*running)
            await until(lambda: made[0].fault)
            assert [await say(f"s{number}") for number in range(10)] == [200] * 10
            port = int(first.url.rpartition(":")[2])
            again = both.enter_context(serving(settings, port=port))
            await until(lambda: NAME in made[0].loaded)
            assert reconciler.why_not(made[0], NAME) == "the engine was started anew since its proof"
            before = again.engine.load.requests_total
            assert [await say(f"t{number}") for number in range(10)] == [200] * 10
            assert again.engine.load.requests_total == before
            await asyncio.to_thread(prove, tmp_path, setting, trainer, again.url)
            await until(lambda: reconciler.why_not(made[0], NAME) is None)
            before = again.engine.load.requests_total
            assert [await say(f"u{number}") for number in range(10)] == [200] * 10
            assert again.engine.load.requests_total > before
    with Reader(tmp_path).snapshot(["turns"]) as snapshot:
        turns = snapshot.arrow("turns", columns=["adapter", "adapter_version"]).to_pylist()
    assert len(turns) == 50
    assert {(turn["adapter"], turn["adapter_version"]) for turn in turns} == {("ada", 1)}
