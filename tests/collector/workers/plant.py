"""A collector before scripted engine workers, with a real store, a real registry and the loop that follows both."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from collector.config import CollectorConfig
from collector.engine.process_identity import process_of
from collector.engine.wire import Delta, GenerateRequest
from collector.fakes import ScriptedEngine, deltas
from collector.past import StoredPast
from collector.records import Event, Route
from collector.routes import RegistryRoutes
from collector.served_model import ServedModel
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.writer import Writer
from collector.workers.fleet import Fleet
from collector.workers.reconcile import Reconciler
from collector.workers.worker import Worker
from tests.collector.loopback import Served, post, serve, until
from tests.collector.published import small_renderer

RENDERER = small_renderer()
REPLY = RENDERER.tokenizer.encode("Hello there.<|im_end|>")
URLS = ("http://127.0.0.1:31001", "http://127.0.0.1:31002", "http://127.0.0.1:31003")


def hello(request: GenerateRequest) -> Sequence[Delta]:
    """A short reply."""
    return deltas(REPLY, prompt_tokens=len(request.input_ids))


class Plant:
    """What a test holds in its hands."""

    def __init__(self, store: Path, engines: Sequence[ScriptedEngine], registry: Registry) -> None:
        self.store = store
        self.engines = list(engines)
        self.registry = registry
        self.routes = RegistryRoutes(["model"], registry.snapshot())
        self.trainer = Writer(store, "trainer")
        self.served: Served
        self.fleet: Fleet
        self.reconciler: Reconciler

    @property
    def workers(self) -> Sequence[Worker]:
        return self.fleet.workers

    def publish(self, version: int, adapter: str = "bot", tenant: str = "dev") -> None:
        """Makes a version live, and routes a tenant to it, whether or not it was loaded or proved."""
        registry, folder = self.registry, f"{adapter}-{version}"
        if not any(each.adapter == adapter for each in registry.snapshot().adapters):
            registry.register_adapter(adapter, tenant=tenant, base_model="model", actor="test", reason="test")
        (self.store / folder).mkdir()
        registry.register_version(
            adapter, version, parent=0, optimizer_step=version, folder=folder, sha256="0" * 64, trained_on=[],
            actor="test", reason="test",
        )  # fmt: skip
        registry.change_state(adapter, version, expected="candidate", to="live", actor="test", reason="test")
        before = registry.snapshot().route_revisions.get(tenant, 0)
        routes = [Route(tenant=tenant, adapter=adapter, version=version)]
        registry.replace_routes(tenant, routes, expected_revision=before, actor="test", reason="test")
        self.routes.snapshot = registry.snapshot()

    async def prove(
        self,
        engine: int,
        name: str = "bot@1",
        *,
        verdict: str = "proved",
        kind: str = "proof",
        address: str | None = None,
    ) -> None:
        """Writes what a trainer writes once it has proved a version on a worker, of the process that runs there now."""
        adapter, _, version = name.rpartition("@")
        process = await process_of(self.engines[engine])
        detail: dict[str, Any] = {"verdict": verdict, "worker": address or URLS[engine], "process": process}
        event = Event(at=datetime.now(UTC), kind=kind, adapter=adapter, version=int(version), detail=detail)
        await asyncio.wrap_future(self.trainer.append(event))

    async def ask(self, session: str, *, text: str = "Hi", model: str = "model") -> tuple[int, dict[str, str], Any]:
        """One call of a session."""
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        return await post(self.served, "/v1/chat/completions", body, **{"x-session-id": session})

    def asked(self, engine: int) -> list[str | None]:
        """The adapters that a worker was asked for, one for each request."""
        return [request.lora_path for request in self.engines[engine].requests]

    async def may_serve(self, engine: int, name: str = "bot@1") -> None:
        """Waits until a worker may serve a version."""
        await until(lambda: self.reconciler.why_not(self.workers[engine], name) is None)

    async def settled(self) -> None:
        """Waits until every living worker has been asked what it has."""
        await until(lambda: all(worker.looked.is_set() for worker in self.workers if worker.fault is None))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table of the store."""
        with Reader(self.store).snapshot([table]) as snapshot:
            return snapshot.arrow(table).to_pylist()

    def told(self, kind: str) -> list[dict[str, Any]]:
        """The stored events of a kind."""
        return [row for row in self.rows("events") if row["kind"] == kind]


@asynccontextmanager
async def plant(
    store: Path, *engines: ScriptedEngine, config: CollectorConfig | None = None, look_every_s: float = 0.02
) -> AsyncGenerator[Plant]:
    """A collector that serves; each engine is a worker at the URL of its place."""
    with Registry(store) as registry, Writer(store, "collector") as writer:
        made = Plant(store, engines, registry)
        workers = [
            Worker(url, engine, ServedModel(engine, Path("scripted")))
            for url, engine in zip(URLS, engines, strict=False)
        ]
        made.reconciler = Reconciler(
            tuple(workers),
            store=store,
            registry=lambda: made.routes.snapshot,
            tell=writer.append,
            look_every_s=look_every_s,
        )
        made.fleet = Fleet(workers, made.reconciler)
        following = asyncio.create_task(made.reconciler.run())
        try:
            async with serve(
                RENDERER,
                made.engines[0],
                journal=writer,
                past=StoredPast(store),
                routes=made.routes,
                config=config,
                fleet=made.fleet,
            ) as made.served:
                yield made
        finally:
            following.cancel()
            made.trainer.close()
