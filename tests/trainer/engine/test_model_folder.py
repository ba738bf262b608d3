"""Where the model lies."""

from pathlib import Path

import pytest

from trainer.engine.model_folder import find_model
from trainer.engine_config import EngineConfig


def test_a_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_model(EngineConfig(model="m"), print) == str(tmp_path / "m")


def test_a_name_that_is_no_folder_is_left_to_who_loads_it() -> None:
    assert find_model(EngineConfig(model="someone/model"), print) == "someone/model"
