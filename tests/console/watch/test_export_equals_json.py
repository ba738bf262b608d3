"""What `e` writes on a screen is what `roundhouse watch STORE --json SCREEN` prints of the same store."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from textual.pilot import Pilot

from console.watch.opened import opened_app
from console.watch.options import Options
from console.watch.printed import Place, printed
from console.watch.views.signals import SignalsView
from tests.benchmarks.synthetic_store import write_store
from tests.console.watch.screen_text import screen_text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store of two adapters."""
    folder = tmp_path_factory.mktemp("exported") / "store"
    write_store(folder, turns=64, steps=8, end=datetime(2026, 5, 1, 12, tzinfo=UTC))
    return folder


def tokens_read(pilot: Pilot[int]) -> bool:
    view = pilot.app.front().view
    return isinstance(view, SignalsView) and view.tokens_share == 1


@pytest.mark.parametrize("more", [{}, {"adapter": "triage", "window_turns": 24}, {"at": "2026-05-01T06:00Z"}])
async def test_the_signals_on_screen_are_written_as_they_are_printed(
    store: Path, tmp_path: Path, more: dict[str, object]
) -> None:
    options = Options(path=store, **more)
    written = tmp_path / "signals.json"
    async with opened_app(options).run_test(size=(120, 36)) as pilot:
        for _ in range(600):
            if tokens_read(pilot):
                break
            await pilot.pause(0.1)
        assert tokens_read(pilot)
        pilot.app.obey(f"export json {written}")
        for _ in range(200):
            if written.exists():
                break
            await pilot.pause(0.05)
        await pilot.pause(0.1)
        assert f"written: {written}" in screen_text(pilot.app).replace("\n", "")
        assert pilot.app.front().view.metrics is None
        pilot.app.obey(f"export json {written}")
        await pilot.pause(0.5)
        assert "is there already" in screen_text(pilot.app)
    shown = json.loads(written.read_text())
    assert isinstance(shown["metrics"]["staleness_max"], float)
    assert shown == json.loads(printed(options, "signals", Place(), rows=50, width=None).text)
