"""The Adapters screen driven by keys: what it shows at both sizes, and that nothing changes without name and reason."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import json, structs
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
from tests.console.watch.fake_feed import NOW, FakeFeed, held
from tests.console.watch.screen_text import screen_text
from tests.console.watch.small_held import ago, frame, turn
from tests.console.watch.text_snapshot import SIZES, assert_as_before
from tests.trainer.adapter_lines import WHY, add_bot, add_version, loads
from trainer.adapters import hold, promote, reject


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
    store: Path, *, rw: bool = True, size: tuple[int, int] = (120, 36), of: Held | None = None
) -> AsyncGenerator[tuple[WatchApp, FakeFeed, Pilot[int]]]:
    feed = FakeFeed(of or read(store))
    acting = Acting(store, actor="ana") if rw else None
    console = WatchApp(feed, {"head": HEAD, "adapters": TOPIC}, acting=acting, start="adapters")
    async with console.run_test(size=size) as pilot:
        await pilot.pause()
        yield console, feed, pilot


def told(store: Path) -> Held:
    """The same as if a change was made a minute after the one before, with a cycle at work, six workers and traffic."""
    seen = read(store)
    assert seen.registry is not None
    audit = tuple(structs.replace(row, at=_minute(row.revision)) for row in seen.audit)
    made = {
        (row.adapter, row.version): row.at for row in audit if row.action in ("register_version", "register_adapter")
    }
    registry = seen.registry._replace(
        adapters=tuple(structs.replace(each, created_at=_minute(0)) for each in seen.registry.adapters),
        versions=tuple(
            structs.replace(each, created_at=at, changed_at=at)
            for each in seen.registry.versions
            for at in [made.get((each.adapter, each.version), _minute(0))]
        ),
        decisions=tuple(structs.replace(row, at=_minute(row.revision)) for row in seen.registry.decisions),
    )
    ranks = [{"running": 2, "waiting": at, "kv_usage": 0.1 * at, "cache_hit_rate": 0.5, "tokens_per_second": 90.0}
             for at in range(5)]  # fmt: skip
    details = [{"worker": f"http://10.0.0.{at}:8000", "turns": at, "loaded": ["bot@1"], "slots": 4, "ranks": [each]}
               for at, each in enumerate(ranks)]  # fmt: skip
    details.append({"worker": "http://10.0.0.9:8000", "fault": "connection refused"})
    events = [{"at": ago(5), "kind": "engine", "detail": json.encode(each).decode()} for each in details]
    stages: list[dict[str, object]] = [
        {"stage": "begin", "state": "begun", "started_by": "12 feedback"},
        {"stage": "train", "state": "done"},
        {"stage": "evaluate", "state": "begun"},
    ]
    events += [
        {"at": ago(60 - at), "kind": "cycle", "adapter": "bot", "detail": json.encode({"cycle": 4, **each}).decode()}
        for at, each in enumerate(stages)
    ]
    proofs = [{"at": ago(70), "kind": "proof", "adapter": "bot", "version": 1,
               "detail": json.encode({"verdict": "proved", "worker": "http://10.0.0.1:8000"}).decode()}]  # fmt: skip
    turns = [turn(f"s-{at}", 1, 30 + at, adapter="bot" if at else "other", adapter_version=1) for at in range(4)]
    return seen._replace(
        registry=registry, audit=audit, events=frame("events", events + proofs), turns=frame("turns", turns),
        read_at=NOW, newest_at=NOW,
    )  # fmt: skip


def _minute(number: int) -> datetime:
    return NOW - timedelta(minutes=60 - number)


@pytest.mark.parametrize("size", SIZES)
async def test_the_screen_looks_as_before(store: Path, size: tuple[int, int]) -> None:
    async with shown(store, size=size, of=told(store)) as (console, _, _pilot):
        text = screen_text(console)
    assert_as_before(f"adapters_{size[0]}x{size[1]}", text)
    if size == (200, 60):
        assert [at for at in range(10) if f" 10.0.0.{at}:8000  slots" in text] == [1, 2, 3, 4, 9]
        assert "and 1 less busy" in text


async def test_a_replay_of_the_newest_moment_looks_as_the_live_screen(store: Path) -> None:
    async with shown(store, size=(120, 36), of=told(store).until(NOW)._replace(newest_at=NOW)) as (console, _, _pilot):
        assert_as_before("adapters_120x36", screen_text(console))


async def until_it_says(pilot: Pilot[None], console: WatchApp, words: str) -> None:
    """Waits for a remark, which is drawn some rounds after the work is done."""
    async with asyncio.timeout(30):
        while words not in screen_text(console):
            await pilot.pause(0.02)


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


async def test_the_list_is_filtered_sorted_and_turned_round(store: Path) -> None:
    async with shown(store) as (console, feed, pilot):
        console.obey("filter tenant:zeta")
        await pilot.pause()
        assert "/tenant:zeta: 1 of 2" in screen_text(console)
        assert "> other" in screen_text(console)
        console.obey("filter state:held")
        await pilot.pause()
        assert "no adapter meets the filter" in screen_text(console)
        await pilot.press("escape", "o")
        await pilot.pause()
        assert (feed.asks["adapters"][1].filter, feed.asks["adapters"][1].descending) == ("", True)
        lines = [line.split()[0].strip("> ") or line.split()[1] for line in screen_text(console).splitlines()[5:7]]
        assert lines == ["other", "bot"]
        await pilot.press("S")
        await pilot.pause()
        assert "sorted by traffic" in screen_text(console)


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
        assert "touches   no open session of v1" in screen_text(console)
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
        await until_it_says(pilot, console, "live is v0, was v1")
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
        await until_it_says(pilot, console, "NOT DONE")
        assert "look again and decide anew" in screen_text(console).replace("\n", " ")
    assert "rollback" not in [row.action for row in read_audit(store)]


async def test_a_hold_and_a_release_of_an_older_revision_are_refused(store: Path) -> None:
    async with shown(store) as (console, feed, pilot):
        for action in ("hold", "release"):
            feed.put(read(store))
            await pilot.pause()
            await pilot.press("h")
            await pilot.pause()
            with Registry(store) as registry:
                hold(registry, "bot", **WHY) if action == "hold" else promote_next(registry, store)
            (await fill(pilot, console, reason="because", name="bot")).press()
            with suppress(WorkerFailed):
                await console.workers.wait_for_complete()
            await until_it_says(pilot, console, "NOT DONE")
            assert "look again and decide anew" in " ".join(screen_text(console).split())
            await pilot.press("escape")
            await pilot.pause()
    assert [row.action for row in read_audit(store)].count("hold") == 1
    assert "release" not in [row.action for row in read_audit(store)]


def promote_next(registry: Registry, store: Path) -> None:
    """Another version becomes live."""
    add_version(registry, store, 3)
    promote(registry, "bot", 3, load=loads, **WHY)


async def test_a_dialog_states_the_gate_of_the_version_that_is_acted_on(store: Path) -> None:
    with Registry(store) as registry:
        add_version(registry, store, 3)
        reject(registry, "bot", 3, **WHY)
    async with shown(store) as (console, _, pilot):
        refused = "v2 refuse: score fell"
        for key, gate in (("P", refused), ("x", refused), ("h", refused), ("r", "has not judged v0")):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(console.screen, AdapterDialog)
            assert f"gate      {gate}" in screen_text(console)
            await pilot.press("escape")
            await pilot.pause()


async def test_a_gate_that_is_not_of_the_candidate_names_its_version(store: Path) -> None:
    async with shown(store) as (console, feed, pilot):
        assert "v1 → v2" in screen_text(console)
        assert "v2 n/d" not in screen_text(console)
        with Registry(store) as registry:
            reject(registry, "bot", 2, **WHY)
        feed.put(read(store))
        await pilot.pause()
        assert "v2 n/d" in screen_text(console)


async def test_actions_are_off_in_a_replay(store: Path) -> None:
    async with shown(store) as (console, feed, pilot):
        feed.seek(datetime(2026, 1, 1, tzinfo=UTC))
        await pilot.pause()
        await pilot.press("r")
        await pilot.pause()
        assert "L goes back to live" in screen_text(console)


async def test_the_line_above_says_how_the_cycle_ended_and_the_row_of_stages_when_and_what_came_since(
    store: Path,
) -> None:
    details = [
        {"stage": "begin", "state": "begun", "started_by": "asked for", "feedback_seen": {"collector": 0}},
        {"stage": "end", "state": "done", "endings": {"bot": "routed"}},
    ]
    events = [
        {"at": ago(60 - at), "kind": "cycle", "detail": json.encode({"cycle": 4, **each}).decode()}
        for at, each in enumerate(details)
    ]
    feedback = frame("feedback", [{"feedback_id": "f", "writer": "collector", "seq": 1}])
    ended = read(store)._replace(events=frame("events", events), feedback=feedback)
    async with shown(store, of=ended) as (console, _, pilot):
        # The first adapter's candidate has more to say there.
        await pilot.press("j")
        await pilot.pause()
        lines = [line.strip() for line in screen_text(console).split("\n")]
        assert "cycle 4 ended: bot routed" in lines
        [row] = [line for line in lines if line.startswith("CYCLE 4")]
        assert row.endswith("ended 11:45  1 new feedback")
        assert sum("new feedback" in line for line in lines) == 1
