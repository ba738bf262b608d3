"""`e` on every screen: what it writes is read again as the view that is shown; csv has a line for each row."""

import csv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from textual.pilot import Pilot

from checks.measure import Tools
from collector.store.registry import Registry
from console.watch.app import WatchApp, own_topics
from console.watch.frame.export import file_name
from console.watch.frame.screen_list import SCREENS
from console.watch.frame.watch_screen import WatchScreen
from console.watch.holding import fitted
from console.watch.topic import Topic
from console.watch.views import (
    adapters,
    alerts,
    logs,
    prefix_diff,
    retok_diff,
    signal_grading,
    signals,
    token,
    traffic,
    trajectories,
    turn,
)
from console.watch.views.signal_grading import Gradings
from tests.console.watch.drill.held_log import held_of
from tests.console.watch.drill.test_drill_screens import OPENED, SMALL, refund_log, settled
from tests.console.watch.fake_feed import FakeFeed
from tests.console.watch.incident_store import incident
from tests.trainer.adapter_lines import add_bot

TOOLS = Tools(SMALL)
PLAIN = (alerts, adapters, traffic, logs, trajectories)
PLACED = (turn, token, prefix_diff, retok_diff)


def every_topic() -> dict[str, Topic[Any]]:
    """All of them, as the console has them."""
    gradings = Gradings()
    made: list[Topic[Any]] = [signals.topic(gradings), signal_grading.topic(gradings)]
    made += [each.TOPIC for each in PLAIN]
    made += [each.topic(lambda: TOOLS) for each in PLACED]
    return {**own_topics(), **{topic.name: topic for topic in made}}


def everything(store: Path) -> FakeFeed:
    """A log with two turns that break, an incident with its alerts, and an adapter."""
    with Registry(store) as registry:
        add_bot(registry)
        snapshot = registry.snapshot()
    log, told = refund_log(), incident()
    held = held_of(log, TOOLS, steps=fitted(told.steps, "steps"), events=told.events, registry=snapshot)
    return FakeFeed(held, log=lambda: log)


@asynccontextmanager
async def console_at(
    topic: str, store: Path, size: tuple[int, int] = (120, 36)
) -> AsyncIterator[tuple[WatchApp, Pilot[int]]]:
    """The console with a screen in front, opened as one opens it."""
    app = WatchApp(everything(store), every_topic(), start="logs" if topic in OPENED else topic)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        if topic in OPENED:
            name, arguments = OPENED[topic] or (topic, {})
            app.open(name, **arguments)
            await settled(pilot)
        yield app, cast("Pilot[int]", pilot)


@pytest.mark.parametrize("topic", SCREENS)
async def test_what_e_writes_is_read_again(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with console_at(topic, tmp_path / "store") as (app, pilot):
        await pilot.press("e", "enter")
        await settled(pilot)
        screen = app.screen
        assert isinstance(screen, WatchScreen)
        assert screen.view is not None
        written = tmp_path / file_name(topic, app.facts().status.at, "json")
        read = msgspec.json.decode(written.read_bytes(), type=type(screen.view))
        if isinstance(read, signals.SignalsView):
            # The numbers of the report are not drawn, and so were not asked for until they were written.
            assert read.metrics is not None
            read = msgspec.structs.replace(read, metrics=None)
        assert read == screen.view
        rows = screen.exported(screen.view)
        assert rows
        app.obey("export csv view.csv")
        with (tmp_path / "view.csv").open(newline="", encoding="utf-8") as file:
            read = [*csv.DictReader(file)]
        assert [[*row] for row in read] == [[*msgspec.to_builtins(row)] for row in rows]
