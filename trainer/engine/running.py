"""The embedded engine behind uvicorn."""

import signal
import socket
from collections.abc import Callable
from types import FrameType

import torch
import uvicorn
from transformers.utils import logging as transformers_logging

from collector.errors import UserError
from trainer.engine.adapter_file import read_adapter
from trainer.engine.causal_model import CausalModel
from trainer.engine.engine import Engine
from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.server import build_app
from trainer.engine_config import EngineConfig


def load_engine(settings: EngineConfig, folder: str) -> Engine:
    """The engine of the settings with its start-up adapters, not yet running."""
    torch.set_num_threads(settings.threads)
    _check_device(settings.device or "cpu")
    transformers_logging.disable_progress_bar()
    engine = Engine(CausalModel.load(folder, settings), settings)
    for name, path in settings.adapters.items():
        try:
            engine.bank.add(name, path, read_adapter(path, engine.bank.shapes))
        except EngineRefusal as refusal:
            raise UserError(f"adapter {name}: {refusal}") from refusal
    return engine


def _check_device(device: str) -> None:
    try:
        torch.zeros(1, device=device).item()
    # A torch built without CUDA says so with an AssertionError.
    except (RuntimeError, AssertionError) as error:
        cause = str(error).partition("\n")[0]
        raise UserError(f"device is {device}, expected one that this torch can use, such as cpu: {cause}") from error


def run_server(engine: Engine, listener: socket.socket, announce: Callable[[], None]) -> int:
    """Serves until a signal or a fault; the exit code. `announce` is called when connections are taken."""
    config = uvicorn.Config(
        build_app(engine, on_end=lambda: setattr(server, "should_exit", True)),
        log_level="warning",
        timeout_graceful_shutdown=5,
    )
    server = AnnouncedServer(config, announce, engine)
    # uvicorn puts these handlers back when it has stopped: by then a signal has nothing left to stop.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    server.run(sockets=[listener])
    return 1 if engine.broken else 0


class AnnouncedServer(uvicorn.Server):
    """A server that says when it takes connections, and ends the replies under way when it stops."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], engine: Engine) -> None:
        super().__init__(config)
        self._announce = announce
        self._engine = engine

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops; a second signal has nothing to hurry, since running replies are ended at once."""
        del sig, frame
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening, then says so."""
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Gives every reply its end, so that no connection is cut, then stops listening."""
        if self._engine.alive:
            await self._engine.abort_all("The engine is stopping.")
        await super().shutdown(sockets)


def _ignore(number: int, frame: FrameType | None) -> None:
    del number, frame
