"""What all drills share: the base model, and stores of traffic that was captured with and without faults."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.drill.captures import CAPTURES, capture
from tests.drill.faulty_engine import faulty
from tests.drill.plant import wait_for_windows
from tests.drill.sharp_model import write_sharp_model
from tests.drill.whole_loop import Loop, opened
from tests.trainer.engine.loopback import serving
from trainer.engine_config import EngineConfig

OpenLoop = Callable[..., AbstractContextManager[Loop]]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sharp_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def captures(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A store for each kind of traffic, none trained on yet."""
    root = tmp_path_factory.mktemp("captures")
    stores = {name: root / name.replace(" ", "-") for name in CAPTURES}
    with serving(EngineConfig(model=str(model))) as engine:
        for name, store in stores.items():
            with faulty(engine.url, CAPTURES[name].fault()) as url:
                capture(CAPTURES[name], store, model=model, engine=url)
    for store in stores.values():
        wait_for_windows(store)
    return stores


@pytest.fixture(scope="session")
def second(model: Path, captures: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose version 1 is live, and has traffic of its own that waits to be trained on."""
    folder = tmp_path_factory.mktemp("second")
    with opened(captures["healthy"], folder, model=model) as loop:
        assert loop.train().ended["ending"] == "routed"
        loop.speak(seed=2)
        wait_for_windows(loop.store)
    return loop.store


@pytest.fixture
def over(tmp_path: Path, model: Path) -> OpenLoop:
    """Opens a whole loop over a copy of a store."""
    return partial(opened, folder=tmp_path, model=model)
