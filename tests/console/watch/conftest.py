"""Every test of the console has a home folder of its own: a copy is written there."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder."""
    made = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(made))
    return made
