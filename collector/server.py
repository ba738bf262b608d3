"""Runs one collector: opens what it needs, listens, says where, drains and closes."""

import asyncio
import gc
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import uvicorn

from collector.app import build_app
from collector.collector import Collector
from collector.config import CollectorConfig
from collector.engine.address import checked_address
from collector.engine.client import EngineClient
from collector.errors import UserError
from collector.expert_routes import ExpertRetention, ExpertRoutes, MixtureShape
from collector.keys import is_loopback
from collector.listening import listen, url_of
from collector.model_json import read_json
from collector.past import StoredPast
from collector.privacy.retention import Retention
from collector.registry_watch import watching
from collector.rendering.proven_family import Choice, choose
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.served_model import ServedModel
from collector.store.expert_files import ExpertFiles
from collector.store.layout import Layout
from collector.store.registry import Registry
from collector.store.writer import Writer
from collector.user_hash import user_key
from collector.workers.engine_load import record_loads
from collector.workers.fleet import Fleet
from collector.workers.reconcile import Reconciler
from collector.workers.worker import Worker
from collector.workers.worker_metrics import RegistryMetrics

_log = logging.getLogger(__name__)

_SWITCH_INTERVAL_S = 0.001
"""How long a thread that seals or renders may hold the others up each time: Python's 5 ms are many tokens' time."""

_COLLECT_AFTER_OBJECTS = 10_000
"""Objects made before the youngest are looked through for cycles: those of some turns, where Python's 700 are some
tokens."""

_LEAVE_LIMIT_S = 5
"""Longest that turns whose connection was cut may take to be recorded."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before the store is closed."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], drain_timeout_s: float) -> None:
        super().__init__(config)
        self._when_started = started
        self._drain_timeout_s = drain_timeout_s

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves signals to the caller."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, then says so."""
        await super().startup(sockets)
        if self.started:
            self._when_started()

    def stop(self) -> None:
        """The first call drains; a second one, or the end of the drain's time, leaves the running replies."""
        if self.should_exit:
            self._leave()
            return
        self.should_exit = True
        asyncio.get_running_loop().call_later(self._drain_timeout_s, self._leave)

    def _leave(self) -> None:
        """Cuts every connection: each turn ends as when its client leaves, and is recorded as far as it came."""
        # uvicorn's own way, force_exit, would close the store's users under them and print their cancellations.
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def run_collector(
    config: CollectorConfig, *, engines: Sequence[str], model: Path, store: Path, announce: Callable[[str], None]
) -> None:
    """Serves until SIGTERM or SIGINT; `announce` gets the URL once it listens."""
    if not config.keys and not is_loopback(config.host):
        raise UserError(
            f"host is {config.host}, expected a loopback address, since no keys are configured: anyone could read "
            "and train; add [collector.keys] (`roundhouse collect --new-key TENANT` makes one)"
        )
    renderer = Renderer.from_folder(
        model, time_limit_s=config.template_time_limit_s, output_limit_chars=config.template_output_limit_chars
    )
    choice = choose(renderer, model, config.renderer)
    if choice.reason is not None:
        _log.info("renderer: %s (%s)", choice.family.name if choice.family else "the template", choice.reason)
    shape = MixtureShape.from_folder(model) if config.expert_routes.enabled else None
    with (
        listen(config.host, config.port) as listener,
        Writer(store, config.writer, config.store) as writer,
        Registry(store) as registry,
    ):
        for line in writer.repaired:
            _log.warning("store: %s", line)
        _run(
            _serve(
                config,
                engines,
                base_model=config.model_name or model.resolve().name,
                context_tokens=_context_tokens(config, model),
                model=model,
                store=store,
                renderer=renderer,
                choice=choice,
                shape=shape,
                writer=writer,
                registry=registry,
                listener=listener,
                announce=announce,
            )
        )


async def _serve(
    config: CollectorConfig,
    engines: Sequence[str],
    *,
    base_model: str,
    context_tokens: int,
    model: Path,
    store: Path,
    renderer: Renderer,
    choice: Choice,
    shape: MixtureShape | None,
    writer: Writer,
    registry: Registry,
    listener: socket.socket,
    announce: Callable[[str], None],
) -> None:
    routes = RegistryRoutes([base_model, *config.model_aliases], registry.snapshot())
    async with AsyncExitStack() as stack:
        workers = [await _worker(stack, config, url, model) for url in _distinct(engines)]
        reconciler = Reconciler(
            tuple(workers),
            store=store,
            registry=lambda: routes.snapshot,
            tell=writer.append,
            look_every_s=config.engine_look_interval_s,
        )
        await stack.enter_async_context(watching(registry, routes, config.writer))
        collector = Collector(
            config=config,
            renderer=renderer,
            context_tokens=context_tokens,
            base_model=base_model,
            fleet=Fleet(workers, reconciler),
            journal=writer,
            past=StoredPast(store),
            routes=routes,
            user_key=user_key(store),
            choice=choice,
            keeper=None if shape is None else ExpertRoutes(shape, ExpertFiles(Layout(store), config.writer)),
        )
        RegistryMetrics(lambda: routes.snapshot, reconciler.budgets, collector.metrics.registry)
        every_s = config.engine_record_interval_s
        for loop_beside in (reconciler.run(), record_loads(workers, writer.append, every_s=every_s)):
            stack.callback(asyncio.create_task(loop_beside).cancel)
        expert_retention = ExpertRetention(config.expert_routes, store, config.writer)
        strays = await asyncio.to_thread(expert_retention.remove_strays)
        if strays:
            _log.warning("store: %d files of expert routes that no turn names are deleted", strays)
        routes_expiring = asyncio.create_task(expert_retention.run())
        stack.callback(routes_expiring.cancel)
        retention = Retention(config.retention, store, writer, collector.sessions)
        expiring = asyncio.create_task(retention.run())
        stack.callback(expiring.cancel)
        url = url_of(*listener.getsockname()[:2])
        server = _Server(_uvicorn_config(config, collector), lambda: announce(url), config.drain_timeout_s)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve([listener])


def _distinct(engines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(checked_address(url) for url in engines))


async def _worker(stack: AsyncExitStack, config: CollectorConfig, url: str, model: Path) -> Worker:
    """A worker with a client of its own, which is closed at the end."""
    engine = EngineClient(
        url,
        admin_key=config.engine_admin_key,
        connect_timeout_s=config.engine_connect_timeout_s,
        idle_timeout_s=config.engine_idle_timeout_s,
    )
    stack.push_async_callback(engine.close)
    return Worker(url, engine, ServedModel(engine, model))


def _run(serving: Coroutine[Any, Any, None]) -> None:
    """On uvloop where there is one: it more than halves the time a token spends here."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # What was loaded by now stays: it is not looked through again with every full collection.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS, 20, 20)
    with asyncio.Runner(loop_factory=uvicorn.Config("", log_config=None).get_loop_factory()) as runner:
        runner.run(serving)


def _uvicorn_config(config: CollectorConfig, collector: Collector) -> uvicorn.Config:
    return uvicorn.Config(
        build_app(collector),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(config.drain_timeout_s) + _LEAVE_LIMIT_S,
    )


def _context_tokens(config: CollectorConfig, model: Path) -> int:
    if config.context_tokens is not None:
        return config.context_tokens
    settings = read_json(model / "config.json")
    inner = cast(dict[str, Any], settings.get("text_config") or {})
    found: Any = settings.get("max_position_embeddings") or inner.get("max_position_embeddings")
    found = found or read_json(model / "tokenizer_config.json").get("model_max_length")
    if not isinstance(found, int) or not 0 < found < 2**31:
        raise UserError(
            f"{model} does not say how long a context may be (max_position_embeddings in config.json); "
            "set context_tokens in [collector]"
        )
    return found
