"""Runs one collector: opens what it needs, listens, says where, drains and closes."""

import asyncio
import logging
import math
import signal
import socket
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import uvicorn

from collector.app import build_app
from collector.collector import Collector
from collector.config import CollectorConfig
from collector.engine.client import EngineClient
from collector.errors import UserError
from collector.keys import is_loopback
from collector.listening import listen, url_of
from collector.model_json import read_json
from collector.past import StoredPast
from collector.privacy.retention import Retention
from collector.registry_watch import watching
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.served_model import ServedModel
from collector.store.registry import Registry
from collector.store.writer import Writer
from collector.user_hash import user_key

_log = logging.getLogger(__name__)

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
    config: CollectorConfig, *, engine_url: str, model: Path, store: Path, announce: Callable[[str], None]
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
                engine_url,
                base_model=config.model_name or model.resolve().name,
                context_tokens=_context_tokens(config, model),
                model=model,
                store=store,
                renderer=renderer,
                writer=writer,
                registry=registry,
                listener=listener,
                announce=announce,
            )
        )


async def _serve(
    config: CollectorConfig,
    engine_url: str,
    *,
    base_model: str,
    context_tokens: int,
    model: Path,
    store: Path,
    renderer: Renderer,
    writer: Writer,
    registry: Registry,
    listener: socket.socket,
    announce: Callable[[str], None],
) -> None:
    routes = RegistryRoutes([base_model, *config.model_aliases], registry.snapshot())
    async with AsyncExitStack() as stack:
        engine = EngineClient(
            engine_url,
            admin_key=config.engine_admin_key,
            connect_timeout_s=config.engine_connect_timeout_s,
            idle_timeout_s=config.engine_idle_timeout_s,
        )
        stack.push_async_callback(engine.close)
        await stack.enter_async_context(watching(registry, routes, config.writer))
        collector = Collector(
            config=config,
            renderer=renderer,
            context_tokens=context_tokens,
            base_model=base_model,
            engine=engine,
            journal=writer,
            past=StoredPast(store),
            routes=routes,
            served=ServedModel(engine, model),
            user_key=user_key(store),
        )
        retention = Retention(config.retention, store, writer, collector.sessions)
        expiring = asyncio.create_task(retention.run())
        stack.callback(expiring.cancel)
        url = url_of(*listener.getsockname()[:2])
        server = _Server(_uvicorn_config(config, collector), lambda: announce(url), config.drain_timeout_s)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve([listener])


def _run(serving: Coroutine[Any, Any, None]) -> None:
    """On uvloop where there is one: it more than halves the time a token spends here."""
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
