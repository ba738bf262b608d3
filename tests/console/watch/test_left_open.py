"""The console left open on a store to which nothing more is written, on a clock that the test turns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from collector.store.registry import Registry
from collector.store.registry_rows import read_audit
from console.watch.app import WatchApp, own_topics
from console.watch.feed import Feed
from console.watch.held import Held
from console.watch.plain.alert_text import age_text
from console.watch.views import adapters, alerts
from tests.console.watch.alert_history import START, as_frame, evaluated
from tests.console.watch.fake_feed import held
from tests.console.watch.fake_source import FakeSource
from tests.console.watch.screen_text import screen_text
from tests.console.watch.small_held import frame, turn
from tests.trainer.adapter_lines import add_bot

LATER = timedelta(minutes=6)


class Clock:
    """A clock that a test turns."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@asynccontextmanager
async def left_open(content: Held, start: str, clock: Clock) -> AsyncIterator[Pilot[int]]:
    source = FakeSource(content)
    feed = Feed(lambda: source, interval_s=0.01, clock=clock)
    topics = {topic.name: topic for topic in (alerts.topic(), adapters.TOPIC)}
    app = WatchApp(feed, {**own_topics(), **topics}, start=start)
    async with app.run_test(size=(120, 36)) as pilot:
        yield pilot


async def line_with(pilot: Pilot[int], *words: str) -> str:
    """The line of the screen with all of these words, once there is one."""
    for _ in range(300):
        await pilot.pause()
        for line in screen_text(pilot.app).split("\n"):
            if all(word in line.split() for word in words):
                return line
        await asyncio.sleep(0.05)
    raise AssertionError(f"no line with {words}:\n{screen_text(pilot.app)}")


async def test_a_pending_alert_grows_old_though_nothing_is_written() -> None:
    events = as_frame(evaluated({"staleness": "gw"}))
    began = START + timedelta(seconds=30)
    clock = Clock(began + timedelta(seconds=45))
    async with left_open(held(events=events, newest_at=began), "alerts", clock) as pilot:
        await line_with(pilot, "PENDING", "staleness", "<1m")
        clock.now += LATER
        await line_with(pilot, "PENDING", "staleness", "6m")


async def test_an_adapter_that_gets_no_turn_any_more_is_parked_though_nothing_is_written(tmp_path: Path) -> None:
    with Registry(tmp_path) as registry:
        add_bot(registry)
        snapshot, audit = registry.snapshot(), tuple(read_audit(tmp_path))
    made = snapshot.versions[0].created_at
    turns = frame("turns", [turn("s", 1, 0, adapter="bot", adapter_version=0, started_at=made, finished_at=made)])
    clock = Clock(made + timedelta(seconds=45))
    content = held(registry=snapshot, audit=audit, turns=turns, newest_at=made)
    async with left_open(content, "adapters", clock) as pilot:
        await line_with(pilot, "bot", "100.0%", "LIVE", "<1m")
        clock.now += LATER
        await line_with(pilot, "bot", "100.0%", "LIVE", "6m")
        clock.now += LATER
        await line_with(pilot, "bot", "–", "PARKED", "12m")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "<1m"), (59.9, "<1m"), (60, "1m"), (389, "6m"), (7199, "119m"), (7200, "2h")]
)
def test_ages_are_of_whole_minutes(seconds: float, said: str) -> None:
    assert age_text(seconds) == said
