"""The console as it opens on a store, driven by keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from console.watch.app import WatchApp, own_topics
from console.watch.options import Options
from console.watch.source.store_source import StoreSource
from console.watch.topics import topics
from tests.console.watch.fake_feed import FakeFeed
from tests.console.watch.screen_text import screen_text


@asynccontextmanager
async def console(store: Path, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Pilot[int]]:
    """The console as it opens on a store."""
    source = StoreSource(store)
    held = source.poll()
    assert held is not None
    app = WatchApp(FakeFeed(held, log=source.log), {**own_topics(), **topics(Options(path=store))})
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot
    source.close()


async def settled(pilot: Pilot[int]) -> None:
    for _ in range(3):
        await pilot.pause()


async def pressed(pilot: Pilot[int], *keys: str) -> str:
    await pilot.press(*keys)
    await settled(pilot)
    return screen_text(pilot.app)


def pane(text: str, title: str) -> str:
    """The lines under a rule, as one; the last two rows of a screen are crumbs and keys."""
    lines = text.split("\n")[:-2]
    begin = next(at for at, line in enumerate(lines) if line.startswith(f"─ {title}")) + 1
    end = next((at for at in range(begin, len(lines)) if lines[at].startswith("─")), len(lines))
    return " ".join(" ".join(lines[begin:end]).split())
