"""The Logs and the Traffic screen: their text at each size, and every key of theirs."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from textual.pilot import Pilot

from checks.log import MemoryLog
from console.watch.app import WatchApp
from console.watch.frame.watch_screen import WatchScreen
from console.watch.held import Held
from console.watch.topic import Ask, Topic, View
from console.watch.views.logs import TOPIC as LOGS
from console.watch.views.traffic import TOPIC as TRAFFIC
from console.watch.widgets.palette import Palette
from tests.console.watch.drill.held_log import log_of
from tests.console.watch.drill.held_log import turn as logged
from tests.console.watch.fake_feed import NOW, FakeFeed
from tests.console.watch.fake_screen import WordsScreen, build_words
from tests.console.watch.screen_text import screen_text
from tests.console.watch.small_held import ago, frame, small_held, turn
from tests.console.watch.text_snapshot import SIZES, assert_as_before


class Opened(WordsScreen):
    """Stands for a screen of one session, and keeps what it was opened with."""

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.arguments = arguments

    def crumb(self) -> str:
        return str(self.arguments)


class OpenedTurn(Opened):
    TOPIC = "turn"


class OpenedToken(Opened):
    TOPIC = "token"


def said() -> MemoryLog:
    """What was said in two of the sessions."""

    def spoken(session: str, asked: str, reply: str) -> dict[str, object]:
        request = json.dumps({"messages": [{"role": "user", "content": asked}]})
        response = json.dumps({"role": "assistant", "content": reply})
        return logged(1, session_id=session, request=request, response=response)

    evil = "it is on its way\x1b[2J\u202e"
    return log_of([spoken("s-c", "Where is my refund?", evil), spoken("s-b", "And now?", "Not yet.")])


@asynccontextmanager
async def console(
    start: str, size: tuple[int, int] = (120, 36), shown: Held | None = None, **more: object
) -> AsyncIterator[tuple[Pilot[int], FakeFeed]]:
    """A console of both screens."""
    feed = FakeFeed(shown or small_held(), log=said)
    words: dict[str, Callable[..., View]] = dict.fromkeys(("signals", "turn", "token"), build_words)
    topics = {"logs": LOGS, "traffic": TRAFFIC, **{name: Topic(name, build) for name, build in words.items()}}
    screens: dict[str, type[WatchScreen]] = {"signals": WordsScreen, "turn": OpenedTurn, "token": OpenedToken}
    app = WatchApp(feed, topics, start=start, screens=screens, **more)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot, feed


async def settled(pilot: Pilot[int]) -> None:
    """Everything that was set off has been drawn."""
    for _ in range(3):
        await pilot.pause(0.03)


def rows(pilot: Pilot[int]) -> list[str]:
    return screen_text(pilot.app).split("\n")


def cursor(pilot: Pilot[int]) -> str:
    return next(line for line in rows(pilot) if line.startswith(">"))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", ["logs", "traffic"])
async def test_the_screen_looks_as_before(start: str, size: tuple[int, int]) -> None:
    async with console(start, size) as (pilot, _):
        text = screen_text(pilot.app)
        assert_as_before(f"{start}_{size[0]}x{size[1]}", text)
        assert "\x1b" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize("start", ["logs", "traffic"])
async def test_a_replay_of_the_newest_moment_looks_as_the_live_screen(start: str) -> None:
    async with console(start, (120, 36), small_held().until(NOW)) as (pilot, _):
        assert_as_before(f"{start}_120x36", screen_text(pilot.app))


@pytest.mark.parametrize("start", ["logs", "traffic"])
async def test_in_ascii_nothing_else_is_drawn(start: str) -> None:
    async with console(start, (80, 24), palette=Palette("none", ascii=True)) as (pilot, _):
        strange = [line for line in rows(pilot) if not line.isascii()]
        assert strange == []


async def test_the_log_is_followed_until_it_is_scrolled_and_says_what_came_since() -> None:
    many = [{"at": ago(900 - n), "kind": "cycle", "severity": "info", "text": f"line {n}"} for n in range(300)]
    base = small_held()._replace(
        events=frame("events", many), audit=(), runs=frame("runs", []), steps=frame("steps", [])
    )
    async with console("logs", (80, 24), base) as (pilot, feed):
        assert "line 299" in rows(pilot)[-10] + cursor(pilot)
        more = [*many, {"at": ago(5), "kind": "cycle", "severity": "warn", "text": "line 300"}]
        feed.put(base._replace(events=frame("events", more)))
        await settled(pilot)
        assert "line 300" in cursor(pilot)
        await pilot.press("g")
        await settled(pilot)
        assert "line 0" in cursor(pilot)
        assert "▼ 300 newer (f follows)" in rows(pilot)[2]
        feed.put(base._replace(events=frame("events", [*more, {"at": NOW, "kind": "x", "text": "line 301"}])))
        await settled(pilot)
        assert "line 0" in cursor(pilot)
        assert "▼ 301 newer (f follows)" in rows(pilot)[2]
        await pilot.press("ctrl+d")
        await settled(pilot)
        assert "line 1" in cursor(pilot)
        await pilot.press("f")
        await settled(pilot)
        assert "line 301" in cursor(pilot)
        assert "newer" not in rows(pilot)[2]


async def test_faults_are_jumped_to_and_shown_alone() -> None:
    async with console("logs") as (pilot, _):
        assert "was taken out" in cursor(pilot)
        await pilot.press("N")
        await settled(pilot)
        assert "undecided" in cursor(pilot)
        await pilot.press("n")
        await settled(pilot)
        assert "was taken out" in cursor(pilot)
        await pilot.press("n")
        await settled(pilot)
        assert rows(pilot)[-2].strip() == "no fault on"
        await pilot.press("B")
        await settled(pilot)
        assert "undecided" in cursor(pilot)
        await pilot.press("F")
        await settled(pilot)
        assert rows(pilot)[2] == " 2 of 6 lines  1 warn  1 fail faults only"
        await pilot.press("F", "slash", *"nobody", "enter")
        await settled(pilot)
        assert rows(pilot)[2].startswith(" /nobody: 0 of 6 lines  ")


async def test_times_are_of_the_day_with_the_date_or_ages() -> None:
    async with console("logs") as (pilot, _):
        seen = [cursor(pilot).split()[1:3]]
        for _ in range(3):
            await pilot.press("t")
            await settled(pilot)
            seen.append(cursor(pilot).split()[1:3])
        assert seen == [["11:46:22", "F"], ["2026-11-29", "11:46:22"], ["25s", "F"], ["11:46:22", "F"]]


async def test_enter_opens_the_turn_of_a_line_and_says_where_there_is_none() -> None:
    async with console("logs") as (pilot, _):
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(pilot.app.screen, OpenedToken)
        assert pilot.app.screen.arguments == {"session_id": "s-a", "turn": 2}
        await pilot.press("escape", "k", "enter")
        await settled(pilot)
        assert rows(pilot)[-2].strip() == "open is off: this line is about no session"


async def test_the_signals_are_shown_at_the_time_of_a_line() -> None:
    async with console("logs") as (pilot, feed):
        await pilot.press("T")
        await settled(pilot)
        assert feed.calls == [("seek", ago(25))]
        assert pilot.app.tab == "signals"


async def test_a_line_is_copied_whole_with_its_control_characters_escaped(home: Path) -> None:
    async with console("logs") as (pilot, _):
        await pilot.press("y")
        await settled(pilot)
        copied = (home / ".cache" / "roundhouse" / "clip.txt").read_text()
        assert copied == "2026-11-29 11:46:22 F collector s-a turn 2: a \\x1b[31msecret\\u202e was taken out"


async def test_a_session_is_opened_copied_and_filtered_for(home: Path) -> None:
    async with console("traffic") as (pilot, feed):
        assert "s-c" in cursor(pilot)
        await pilot.press("j", "y")
        await settled(pilot)
        assert (home / ".cache" / "roundhouse" / "clip.txt").read_text() == "s-a"
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(pilot.app.screen, OpenedTurn)
        assert pilot.app.screen.arguments == {"session_id": "s-a"}
        await pilot.press("escape")
        pilot.app.obey("filter prefix:break")
        await settled(pilot)
        assert "/prefix:break: 1" in rows(pilot)[2]
        assert "s-a" in cursor(pilot)
        ask = feed.asks["traffic"][1]
        assert isinstance(ask, Ask)
        assert ask.filter == "prefix:break"


async def test_the_last_turn_of_the_chosen_session_follows_the_cursor_where_there_is_room() -> None:
    async with console("traffic") as (pilot, feed):
        text = screen_text(pilot.app)
        assert "last turn s-c t1  refund@3  10 tokens  2.0s" in text
        assert "user         Where is my refund?" in text
        assert "assistant    it is on its way\\x1b[2J\\u202e" in text
        await pilot.press("j")
        await settled(pilot)
        assert "last turn s-a t2" in screen_text(pilot.app)
        # The thumb up was replaced by a thumb down; the first turn was credited with 0.
        assert "feedback     thumb 0   credited: turn 1 0" in screen_text(pilot.app)
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert "last turn" not in screen_text(pilot.app)
        ask = feed.asks["traffic"][1]
        assert isinstance(ask, Ask)
        assert ask.selected == ()


async def test_sessions_are_sorted_by_the_next_column_and_turned_round() -> None:
    async with console("traffic") as (pilot, feed):
        await pilot.press("S", "S", "o")
        await settled(pilot)
        ask = feed.asks["traffic"][1]
        assert isinstance(ask, Ask)
        assert (ask.sort, ask.descending) == ("turns", False)
        assert rows(pilot)[-2].strip() == "sorted by turns"


async def test_f_goes_to_the_newest_session_and_n_to_the_next_that_breaks() -> None:
    async with console("traffic") as (pilot, feed):
        await pilot.press("S", "S", "G", "f")
        await settled(pilot)
        ask = feed.asks["traffic"][1]
        assert isinstance(ask, Ask)
        assert (ask.sort, ask.descending) == ("", True)
        assert "s-c" in cursor(pilot)
        await pilot.press("n")
        await settled(pilot)
        assert "s-a" in cursor(pilot)
        await pilot.press("n")
        await settled(pilot)
        assert rows(pilot)[-2].strip() == "no further session with a break in sight"


async def test_w_gives_the_chosen_line_half_the_screen_and_takes_it_back() -> None:
    long = "x" * 400 + "end"
    base = small_held()._replace(
        events=frame("events", [{"at": ago(9), "kind": "cycle", "severity": "info", "text": long}])
    )
    async with console("logs", (80, 24), base) as (pilot, _):
        assert "xend" not in "".join(rows(pilot))
        await pilot.press("w")
        await settled(pilot)
        assert "xend" in "".join(rows(pilot))
        await pilot.press("w")
        await settled(pilot)
        assert "xend" not in "".join(rows(pilot))


async def test_sessions_far_down_are_asked_for_when_they_are_in_sight() -> None:
    base = small_held()
    more = frame("turns", [turn(f"x-{n:04}", 1, 100 + n) for n in range(2000)])
    async with console("traffic", (120, 36), base._replace(turns=base.turns.vstack(more))) as (pilot, _):
        await pilot.press("G")
        await settled(pilot)
        assert "x-1999" in cursor(pilot)
        await pilot.press("pageup")
        await settled(pilot)
        assert "…" not in "".join(line for line in rows(pilot) if "x-" in line)
    assert base.turns["started_at"].max() == NOW - timedelta(seconds=20)
    assert isinstance(base.turns, pl.DataFrame)
