"""Eight adapters at every size: all of them in sight, and none under half a name that does not say so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from console.watch.app import WatchApp, own_topics
from console.watch.held import Held
from console.watch.views import adapters, signal_grading, signals
from console.watch.views.signal_grading import Gradings
from tests.console.watch.eight_adapters import STATES, eight_adapters
from tests.console.watch.fake_feed import FakeFeed
from tests.console.watch.incident_store import incident
from tests.console.watch.screen_text import screen_text

SIZES = [(60, 15), (80, 24), (120, 36)]
LONG = tuple(f"customer-support-{place}-lora-r32" for place in range(1, 9))
CANDIDATES = {"CANARY": "→ v2 25%", "CANDIDATE": "→ v2", "GATE": "→ v2", "HELD": "→ v2"}


@asynccontextmanager
async def console(held: Held, start: str, size: tuple[int, int]) -> AsyncIterator[Pilot[int]]:
    """The console at one of both screens."""
    gradings = Gradings()
    real = (adapters.TOPIC, signals.topic(gradings), signal_grading.topic(gradings))
    topics = {**own_topics(), **{topic.name: topic for topic in real}}
    async with WatchApp(FakeFeed(held), topics, start=start).run_test(size=size) as pilot:
        await pilot.pause(0.1)
        yield pilot


def sentence(pilot: Pilot[int]) -> str:
    """The row that says what moved first: the third, and the second where there is no row of tabs."""
    return screen_text(pilot.app).split("\n")[1 if pilot.app.size.height < 24 else 2]


@pytest.mark.parametrize("size", SIZES)
async def test_all_eight_stand_in_the_table_with_version_candidate_and_state(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with console(eight_adapters(tmp_path), "adapters", size) as pilot:
        rows = screen_text(pilot.app).split("\n")
    below = rows[[row.split()[:2] == ["adapter", "live"] for row in rows].index(True) + 1 :]
    found = [row[2:80].split() for row in below[:8]]
    assert [row[0] for row in found] == [*STATES]
    for row, (adapter, state) in zip(found, STATES.items(), strict=True):
        assert row[1] == "v1"
        assert " ".join(row).startswith(f"{adapter} v1 {CANDIDATES.get(state, '–')} ")
        assert state in row
        if size[0] >= 80:
            # Seven of the eight had one turn each.
            assert ("0.0%" if state == "PARKED" else "14.3%") in row


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("names", [tuple(STATES), LONG], ids=["short", "long"])
async def test_the_signals_of_each_of_eight_say_whose_they_are(names: tuple[str, ...], size: tuple[int, int]) -> None:
    async with console(incident(adapters=names), "signals", size) as pilot:
        said: list[str] = []
        for _ in names:
            said.append(sentence(pilot))
            await pilot.press("l")
            await pilot.pause(0.05)
        round_again = sentence(pilot)
    assert [row.split("  ")[0].strip() for row in said] == [f"{name} {at}/8" for at, name in enumerate(names, 1)]
    assert all(len(row) <= size[0] for row in said)
    # What moved stands behind the name, and where there is no room for all of it the row says so.
    assert "FIRST" in said[0]
    assert said[0].endswith("…") or "grad_norm" in said[0]
    assert round_again == said[0]
