"""A collector on a loopback port in front of a scripted engine."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import uvicorn
from starlette.types import ASGIApp

from collector.app import build_app
from collector.collector import Collector
from collector.config import CollectorConfig
from collector.fakes import MemoryJournal, MemoryPast, ScriptedEngine, fleet_of
from collector.ports import Journal, Past, RouteKeeper
from collector.privacy.detector import Detector
from collector.rendering.proven_family import Choice
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.served_model import ServedModel
from collector.store.registry_rows import RegistrySnapshot
from collector.workers.fleet import Fleet


class Served(NamedTuple):
    """A collector that listens, and what it stands between."""

    url: str
    collector: Collector
    engine: ScriptedEngine
    journal: Any


@asynccontextmanager
async def serve(
    renderer: Renderer,
    engine: ScriptedEngine,
    *,
    journal: Journal | None = None,
    past: Past | None = None,
    config: CollectorConfig | None = None,
    context_tokens: int = 32_768,
    routes: RegistryRoutes | None = None,
    served_model: ServedModel | None = None,
    detector: Detector | None = None,
    fleet: Fleet | None = None,
    choice: Choice | None = None,
    keeper: RouteKeeper | None = None,
    wrap: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> AsyncGenerator[Served]:
    """A collector on a free loopback port; `wrap` puts something around its app."""
    kept = MemoryJournal() if journal is None else journal
    collector = Collector(
        config=config or CollectorConfig(),
        renderer=renderer,
        context_tokens=context_tokens,
        base_model="model",
        fleet=fleet or fleet_of(engine, served=served_model),
        journal=kept,
        past=past or MemoryPast(),
        routes=routes or RegistryRoutes(["model"], RegistrySnapshot(0, (), (), (), {})),
        user_key=b"key",
        detector=detector,
        choice=choice,
        keeper=keeper,
    )
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(wrap(build_app(collector)), lifespan="on", log_config=None, timeout_graceful_shutdown=2)
    )
    task = asyncio.create_task(server.serve([listening]))
    while not server.started:
        assert not task.done(), task.result()
        await asyncio.sleep(0.005)
    try:
        yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", collector, engine, kept)
    finally:
        server.should_exit = True
        await task
        listening.close()


async def post(served: Served, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
    """Posts a body; status, headers and the answer, as JSON where it is JSON."""
    async with aiohttp.ClientSession() as session:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with session.post(f"{served.url}{path}", data=data, headers=headers) as answer:
            text = await answer.text()
            return answer.status, dict(answer.headers), json.loads(text) if text.startswith(("{", "[")) else text


async def until(condition: Callable[[], object], *, timeout_s: float = 30) -> None:
    """Waits until the condition holds; a TimeoutError when it never does."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)
