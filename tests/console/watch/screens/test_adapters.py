"""The Adapters screen driven by keys: what it shows at both sizes, and that nothing changes without name and reason."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input
from textual.worker import WorkerFailed

from collector.store.registry import Registry
from collector.store.registry_rows import read_audit
from console.watch.acting import Acting
from console.watch.app import WatchApp
from console.watch.held import Held
from console.watch.screens.adapter_dialog import AdapterDialog
from console.watch.views.adapters import TOPIC
from console.watch.views.head import TOPIC as HEAD
from tests.console.watch.fake_feed import FakeFeed, held
from tests.console.watch.screen_text import screen_text
from tests.trainer.adapter_lines import WHY, add_bot, add_version, loads
from trainer.adapters import promote


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Registry(tmp_path) as registry:
        add_bot(registry)
        add_version(registry, tmp_path, 1)
        promote(registry, "bot", 1, load=loads, **WHY)
        add_version(registry, tmp_path, 2, gate={"verdict": "refuse", "reasons": ["score fell"], "numbers": {}})
        add_bot(registry, "other", "zeta")
    return tmp_path


def read(store: Path) -> Held:
    with Registry(store) as registry:
        return held(registry=registry.snapshot(), audit=tuple(read_audit(store)), read_at=datetime.now(UTC))


@asynccontextmanager
async def shown(
    store: Path, *, rw: bool = True, size: tuple[int, int] = (120, 36)
) -> AsyncGenerator[tuple[WatchApp, FakeFeed, Pilot[int]]]:
    feed = FakeFeed(read(store))
    acting = Acting(store, actor="ana") if rw else None
    console = WatchApp(feed, {"head": HEAD, "adapters": TOPIC}, acting=acting, start="adapters")
    async with console.run_test(size=size) as pilot:
        await pilot.pause()
        yield console, feed, pilot


def state(store: Path) -> tuple[int, list[str]]:
    with Registry(store) as registry:
        snapshot = registry.snapshot()
    return snapshot.revision, [each.state for each in snapshot.versions if each.adapter == "bot"]


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_it_shows_every_adapter_and_one_in_full(store: Path, size: tuple[int, int]) -> None:
    async with shown(store, size=size) as (console, _, _pilot):
        text = screen_text(console)
    lines = text.splitlines()
    row = next(line for line in lines if "> bot" in line)
    assert "v1" in row
    assert "v2" in row
    assert "CANDIDATE" in row
    assert any("other" in line and "v0" in line for line in lines)
    assert "GATE v2  REFUSE" in text
    assert "score fell" in text
    assert all(len(line) <= size[0] for line in lines)


async def test_the_cursor_chooses_the_adapter_in_full(store: Path) -> None:
    async with shown(store) as (console, _, pilot):
        await pilot.press("j")
        await pilot.pause()
        assert "tenant zeta" in screen_text(console)
        assert "adapters › other" in screen_text(console)


@pytest.mark.parametrize("key", ["p", "P", "c", "x", "r", "h"])
async def test_read_only_no_key_changes_anything_and_each_says_why(store: Path, key: str) -> None:
    before = state(store)
    async with shown(store, rw=False) as (console, _, pilot):
        await pilot.press(key)
        await pilot.pause()
        assert not isinstance(console.screen, AdapterDialog)
        assert "read-only; start it with --rw" in screen_text(console)
    assert state(store) == before


async def test_a_promotion_that_the_gate_refused_is_off_and_says_so(store: Path) -> None:
    async with shown(store) as (console, _, pilot):
        await pilot.press("p")
        await pilot.pause()
        assert not isinstance(console.screen, AdapterDialog)
        assert "the gate's verdict is refuse" in screen_text(console)


async def fill(pilot: Pilot[int], console: WatchApp, *, reason: str, name: str) -> Button:
    console.screen.query_one("#reason", Input).value = reason
    console.screen.query_one("#name", Input).value = name
    await pilot.pause()
    return console.screen.query_one("#do", Button)


async def test_nothing_is_done_without_the_reason_and_the_whole_name(store: Path) -> None:
    before = state(store)
    async with shown(store) as (console, _, pilot):
        await pilot.press("r")
        await pilot.pause()
        assert isinstance(console.screen, AdapterDialog)
        assert console.focused is console.screen.query_one("#cancel")
        for reason, name in (("", "bot"), ("  ", "bot"), ("because", "bo"), ("because", "other")):
            assert (await fill(pilot, console, reason=reason, name=name)).disabled
        assert not (await fill(pilot, console, reason="because", name="bot")).disabled
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(console.screen, AdapterDialog)
    assert state(store) == before


async def test_a_rollback_is_done_by_the_trainer_s_function_and_audited(store: Path) -> None:
    async with shown(store) as (console, _, pilot):
        await pilot.press("r")
        await pilot.pause()
        assert "v0 from" in screen_text(console).replace("bot@", "v") or "bot@0" in screen_text(console)
        button = await fill(pilot, console, reason="max_w alert", name="bot")
        button.press()
        await console.workers.wait_for_complete()
        await pilot.pause()
        assert "live is v0, was v1" in screen_text(console)
    assert state(store)[1] == ["live", "retired", "candidate"]
    done = [row for row in read_audit(store) if row.action == "rollback"]
    assert [(row.actor, row.reason, row.version) for row in done] == [("ana", "max_w alert", 0)]


async def test_h_holds_and_then_releases(store: Path) -> None:
    async with shown(store) as (console, feed, pilot):
        for word in ("hold", "release"):
            await pilot.press("h")
            await pilot.pause()
            (await fill(pilot, console, reason=word, name="bot")).press()
            await console.workers.wait_for_complete()
            await pilot.pause()
            feed.put(read(store))
            await pilot.pause()
    assert [row.action for row in read_audit(store)][-2:] == ["hold", "release"]


async def test_the_dialog_is_void_when_another_version_became_live(store: Path) -> None:
    async with shown(store) as (console, feed, pilot):
        await pilot.press("r")
        await pilot.pause()
        with Registry(store) as registry:
            add_version(registry, store, 3)
            promote(registry, "bot", 3, load=loads, **WHY)
        feed.put(read(store))
        await pilot.pause()
        assert "VOID" in screen_text(console)
        assert (await fill(pilot, console, reason="because", name="bot")).disabled


async def test_what_changed_meanwhile_refuses_the_order_in_the_dialog(store: Path) -> None:
    async with shown(store) as (console, _, pilot):
        await pilot.press("r")
        await pilot.pause()
        with Registry(store) as registry:
            registry.record_decision("bot", "hold", **WHY)
        (await fill(pilot, console, reason="because", name="bot")).press()
        with suppress(WorkerFailed):
            await console.workers.wait_for_complete()
        await pilot.pause()
        assert "NOT DONE" in screen_text(console)
        assert "look again and decide anew" in screen_text(console).replace("\n", " ")
    assert "rollback" not in [row.action for row in read_audit(store)]


async def test_actions_are_off_in_a_replay(store: Path) -> None:
    async with shown(store) as (console, feed, pilot):
        feed.seek(datetime(2026, 1, 1, tzinfo=UTC))
        await pilot.pause()
        await pilot.press("r")
        await pilot.pause()
        assert "L goes back to live" in screen_text(console)
