"""Where the model to serve lies. Imports no torch."""

from collections.abc import Callable
from pathlib import Path

from trainer.engine_config import EngineConfig


def find_model(settings: EngineConfig, report: Callable[[str], None]) -> str:
    """Folder of the model; `smollm2-135m` is looked up, and fetched once. Any other name is left to who loads it."""
    if settings.model == EngineConfig().model:
        from trainer.small_model import find_small_model

        return str(find_small_model(settings=settings.small_model, report=report))
    path = Path(settings.model).expanduser()
    return str(path.resolve()) if path.is_dir() else settings.model
