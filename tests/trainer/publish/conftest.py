"""An engine that serves the base model of a setting."""

from collections.abc import Iterator

import pytest

from tests.trainer.engine.loopback import Served, serving
from tests.trainer.publish.probe_setting import Setting, make_setting
from trainer.engine_config import EngineConfig


@pytest.fixture(scope="session")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return make_setting(tmp_path_factory.mktemp("publish"))


@pytest.fixture
def served(setting: Setting) -> Iterator[Served]:
    with serving(EngineConfig(model=str(setting.model), max_adapters=3)) as engine:
        yield engine
