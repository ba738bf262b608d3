"""A view that comes between a key and the message of what the key did takes nothing of it back."""

from pathlib import Path
from typing import Any

import pytest

from console.watch.app import WatchApp, own_topics
from console.watch.builder import Built
from console.watch.held import Held
from console.watch.topic import Topic
from console.watch.views import adapters, alerts, trajectories
from console.watch.widgets.table import WindowedTable
from tests.console.watch.eight_adapters import eight_adapters
from tests.console.watch.fake_feed import NOW, FakeFeed
from tests.console.watch.incident_store import incident
from tests.console.watch.small_held import small_held


def of(topic: str, store: Path) -> tuple[Held, Topic[Any]]:
    """What is held, and the topic."""
    if topic == "adapters":
        return eight_adapters(store), adapters.TOPIC
    return (incident(), alerts.topic()) if topic == "alerts" else (small_held(), trajectories.TOPIC)


@pytest.mark.parametrize("topic", ["adapters", "alerts", "trajectories"])
async def test_the_cursor_stays_where_the_last_key_put_it(topic: str, tmp_path: Path) -> None:
    held, made = of(topic, tmp_path)
    app = WatchApp(FakeFeed(held), {**own_topics(), topic: made}, start=topic)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.1)
        screen, table = app.front(), app.screen.query(WindowedTable).first()
        assert screen is not None
        before = table.cursor
        for _ in range(2):
            table.action_move(1)
            # At once: the message of the move is still under way.
            screen.received(Built(topic, screen.ask(), screen.view, NOW))
        await pilot.pause(0.1)
        assert table.cursor == before + 2
