"""Runs one collector: opens what it needs, listens, says where, drains and closes."""

import asyncio
import logging
import os
import secrets
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
from collector.past import StoredPast
from collector.registry_watch import watching
from collector.rendering.renderer import Renderer
from collector.rendering.tokenizer import read_json
from collector.routes import RegistryRoutes
from collector.store.registry import Registry
from collector.store.writer import Writer

_log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before the store is closed."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._when_started = started

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
        """The first call drains; a second one does not wait for running replies."""
        self.force_exit = self.should_exit
        self.should_exit = True


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
    with Writer(store, config.writer, config.store) as writer, Registry(store) as registry:
        for line in writer.repaired:
            _log.warning("store: %s", line)
        with _listen(config.host, config.port) as listening:
            _run(
                _serve(
                    config,
                    engine_url,
                    base_model=config.model_name or model.resolve().name,
                    context_tokens=_context_tokens(config, model),
                    store=store,
                    renderer=renderer,
                    writer=writer,
                    registry=registry,
                    listening=listening,
                    announce=announce,
                )
            )


async def _serve(
    config: CollectorConfig,
    engine_url: str,
    *,
    base_model: str,
    context_tokens: int,
    store: Path,
    renderer: Renderer,
    writer: Writer,
    registry: Registry,
    listening: socket.socket,
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
            user_key=user_key(store),
        )
        host, port = listening.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        server = _Server(_uvicorn_config(config, collector), lambda: announce(url))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve([listening])


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
        timeout_graceful_shutdown=max(1, round(config.drain_timeout_s)),
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UserError(
            f"cannot listen on {host} port {port}: {error}; choose another port, or 0 for a free one"
        ) from error
    listening.listen(2048)
    return listening


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


def user_key(store: Path) -> bytes:
    """The secret that user names are hashed with; made once per store, readable by its owner only."""
    path = store / "user_hash.key"
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    return path.read_bytes()
