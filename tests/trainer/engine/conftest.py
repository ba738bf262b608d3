"""Tiny models and an engine that serves one of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainer.engine.loopback import Served, serving
from trainer.engine_config import EngineConfig
from trainer.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {family: write_tiny_model(folder / family, family=family) for family in ("llama", "qwen2", "qwen3")}


@pytest.fixture(scope="session")
def llama(tiny_models: dict[str, Path]) -> Path:
    return tiny_models["llama"]


@pytest.fixture(scope="session")
def served(llama: Path) -> Iterator[Served]:
    with serving(EngineConfig(model=str(llama))) as engine:
        yield engine
