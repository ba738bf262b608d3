"""Keys that are typed faster than a screen opens: each is for the screen that the one before it opens, in order."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from console.watch.app import WatchApp
from console.watch.builder import Built
from console.watch.frame.watch_screen import WatchScreen
from console.watch.topic import Topic
from console.watch.views.head import TOPIC as HEAD
from console.watch.views.traffic import TOPIC as TRAFFIC
from console.watch.views.trajectories import TOPIC as TRAJECTORIES
from tests.console.watch.fake_feed import FakeFeed
from tests.console.watch.fake_screen import WordsScreen, build_words
from tests.console.watch.screen_text import screen_text
from tests.console.watch.small_held import small_held
from tests.console.watch.terminal import ROOT, Terminal, watch_words


class SlowFeed(FakeFeed):
    """Posts what it built only when it is told to."""

    def __init__(self, *slow: str) -> None:
        super().__init__(small_held())
        self.slow = {*slow}

    def _build(self, name: str) -> None:
        if name not in self.slow:
            super()._build(name)

    def come(self, name: str) -> None:
        """What was asked last is built now."""
        super()._build(name)

    def come_late(self, name: str, ask: object) -> None:
        """So is what was asked before."""
        topic = self.asks[name][0]
        assert self._post
        self._post(Built(name, ask, topic.build(self.held, ask, self.log), self.held.newest_at))


class OpenedTurn(WordsScreen):
    """Stands for the turns of a session, and says which."""

    TOPIC = "turn"

    def __init__(self, session_id: str) -> None:
        super().__init__()
        self.session_id = session_id

    def crumb(self) -> str:
        return self.session_id


@asynccontextmanager
async def console(*slow: str) -> AsyncIterator[tuple[Pilot[int], SlowFeed]]:
    """A console at its signals, with traffic and trajectories behind 2 and 5; the newest session is s-c, then s-a,
    then s-b."""
    feed = SlowFeed(*slow)
    words = {name: Topic(name, build_words) for name in ("signals", "turn")}
    topics = {"head": HEAD, "traffic": TRAFFIC, "trajectories": TRAJECTORIES, **words}
    screens: dict[str, type[WatchScreen]] = {"signals": WordsScreen, "turn": OpenedTurn}
    app = WatchApp(feed, topics, screens=screens)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        yield pilot, feed


def type_at_once(pilot: Pilot[int], *keys: str) -> None:
    """Keys as they come from a terminal in one read."""
    named = {"colon": ":", "space": " "}
    for key in keys:
        pilot.app._driver.send_message(events.Key(key, key if len(key) == 1 else named.get(key)))


async def until(pilot: Pilot[int], come: Callable[[], bool]) -> None:
    """Waits, a second at most."""
    for _ in range(100):
        if come():
            return
        await pilot.pause(0.01)
    raise AssertionError(screen_text(pilot.app))


def crumbs(pilot: Pilot[int]) -> str:
    rows = screen_text(pilot.app).split("\n")
    return rows[-2].strip() if len(rows) > 1 else "nothing is drawn yet"


@pytest.mark.parametrize(("tab", "title"), [("2", "traffic"), ("5", "trajectories")])
async def test_keys_behind_a_tab_are_for_its_screen(tab: str, title: str) -> None:
    async with console() as (pilot, _):
        type_at_once(pilot, tab, "j", "j", "enter")
        await until(pilot, lambda: crumbs(pilot) == f"{title} › s-b")


async def test_keys_wait_for_what_they_act_on_and_go_in_their_order() -> None:
    async with console("traffic") as (pilot, feed):
        type_at_once(pilot, "2", "j", "enter", "escape", "k", "enter")
        await pilot.pause(0.3)
        assert crumbs(pilot) == "traffic"
        feed.come("traffic")
        # Down to s-a, into it, out again, up to s-c.
        await until(pilot, lambda: crumbs(pilot) == "traffic › s-c")


async def test_a_key_that_needs_nothing_of_the_screen_does_not_wait() -> None:
    async with console("traffic") as (pilot, _):
        type_at_once(pilot, "2", "1")
        await until(pilot, lambda: crumbs(pilot) == "words")


async def test_a_key_for_what_does_not_come_says_so_and_does_nothing_later() -> None:
    async with console("traffic") as (pilot, feed):
        type_at_once(pilot, "2", "j", "enter")
        await pilot.pause(2.5)
        assert crumbs(pilot) == "⏎ is off: nothing is shown yet"
        feed.come("traffic")
        await pilot.pause(0.3)
        assert pilot.app.front().TOPIC == "traffic"
        assert pilot.app.front()._table.cursor == 0


async def test_keys_behind_a_command_are_for_the_screen_and_the_rows_it_asks_for() -> None:
    async with console() as (pilot, _):
        type_at_once(pilot, "colon", *"traffic", "space", *"tenant", "colon", *"zeta", "enter", "enter")
        await until(pilot, lambda: crumbs(pilot) == "traffic › s-b")


async def test_enter_behind_a_filter_waits_for_the_rows_that_meet_it() -> None:
    async with console() as (pilot, feed):
        type_at_once(pilot, "5")
        await until(pilot, lambda: crumbs(pilot) == "trajectories")
        await pilot.pause()
        feed.slow = {"trajectories"}
        before = feed.asks["trajectories"][1]
        type_at_once(pilot, "slash", *"tenant", "colon", *"zeta", "enter", "enter")
        await until(pilot, lambda: feed.asks["trajectories"][1].filter == "tenant:zeta")
        # A view that was under way when the filter was typed is not what was asked for.
        feed.come_late("trajectories", before)
        await pilot.pause(0.3)
        assert crumbs(pilot) == "trajectories"
        feed.come("trajectories")
        await until(pilot, lambda: crumbs(pilot) == "trajectories › s-b")


async def test_keys_behind_one_that_opens_a_dialog_are_for_the_dialog(home: Path) -> None:
    async with console() as (pilot, _):
        type_at_once(pilot, "Y", "enter", "2", "j", "enter")
        await until(pilot, lambda: crumbs(pilot) == "traffic › s-a")
        assert (home / ".cache" / "roundhouse" / "clip.txt").read_text() == "stores"


async def test_what_a_terminal_pastes_goes_behind_the_keys_before_it() -> None:
    async with console() as (pilot, _):
        type_at_once(pilot, "2", "slash")
        pilot.app._driver.send_message(events.Paste("tenant:zeta"))
        type_at_once(pilot, "enter", "enter")
        await until(pilot, lambda: crumbs(pilot) == "traffic › s-b")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three sessions: a, b, c."""
    made = tmp_path / "three.jsonl"
    first, second = (ROOT / "samples" / "importance-weight" / "fires.jsonl").read_text().splitlines()
    third = json.dumps(json.loads(second) | {"session_id": "c"})
    made.write_text("\n".join((first, second, third)) + "\n")
    return made


def test_keys_in_one_write_to_a_terminal_reach_the_third_session(log: Path, home: Path) -> None:
    with Terminal(watch_words(str(log)), home) as terminal:
        terminal.until(b"max_w")
        terminal.press("5jj\r")
        terminal.until("trajectories › c".encode())
        terminal.press("q")
        assert terminal.ended() == 0


def test_keys_typed_before_anything_is_loaded_are_not_lost(log: Path, home: Path) -> None:
    with Terminal(watch_words(str(log)), home) as terminal:
        terminal.until(b"reading")
        terminal.press("5jj\r")
        terminal.until("trajectories › c".encode())
        terminal.press("q")
        assert terminal.ended() == 0


async def test_an_interrupt_overtakes_keys_that_wait_for_a_screen() -> None:
    async with console("trajectories") as (pilot, _):
        type_at_once(pilot, "5", "enter", "j", "ctrl+c")
        await pilot.pause(0.5)
        assert pilot.app.return_value == 0


@pytest.mark.parametrize("moves", ["j", "J"])
async def test_keys_along_the_rows_are_waited_for_once_whatever_letter_they_have(moves: str) -> None:
    app = WatchApp(SlowFeed(), {"head": HEAD}, keymap={"move.down": moves})
    assert {moves, "k", "up", "pagedown", "ctrl+u"} <= app.held_down
    assert not {"enter", "5", "g", "colon"} & app.held_down
    assert ("j" in app.held_down) == (moves == "j")
