"""Starts the embedded engine: what can be refused at once is, before torch is imported."""

from collections.abc import Callable
from pathlib import Path

from collector.errors import UserError
from collector.listening import listen, url_of
from collector.ready_file import write_ready_file
from trainer.engine.model_folder import find_model
from trainer.engine_config import EngineConfig


def serve(settings: EngineConfig, *, ready_file: Path | None, say: Callable[[str], None]) -> int:
    """Loads the model, serves it and returns the exit code: 0 when told to stop, 1 when the engine broke."""
    with listen(settings.host, settings.port) as listener:
        url = url_of(settings.host, listener.getsockname()[1])
        folder = find_model(settings, say)
        if not (Path(folder) / "config.json").is_file():
            raise UserError(f"{folder}: no config.json found, expected the folder of a Hugging Face model")
        say(f"loading {settings.model} ...")
        from trainer.engine.running import load_engine, run_server

        engine = load_engine(settings, folder)

        def announce() -> None:
            if ready_file is not None:
                write_ready_file(ready_file, url)
            name = settings.served_name or settings.model
            say(f"serving {name} at {url} (context {engine.max_context}, room for {engine.scheduler.kv_tokens} tokens)")

        return run_server(engine, listener, announce)
