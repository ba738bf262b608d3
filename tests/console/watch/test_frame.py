"""The frame of every screen: tabs, crumbs, command line, filter, help, copying, exporting, time."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from textual.pilot import Pilot

from console.watch.frame.help_screen import HelpScreen
from console.watch.holding import fitted
from console.watch.topic import Topic
from tests.console.watch.fake_feed import NOW, FakeFeed, held
from tests.console.watch.fake_screen import OtherScreen, WordsScreen, build_words, words_app
from tests.console.watch.screen_text import screen_text

WIDE, NARROW = (120, 36), (80, 24)


async def typed(pilot: Pilot[int], text: str) -> None:
    """Presses each letter of a line."""
    named = {" ": "space", ":": "colon", "/": "slash", "-": "minus", ".": "full_stop", ">": "greater_than_sign"}
    await pilot.press(*(named.get(letter, letter) for letter in text))


def rows(pilot: Pilot[int]) -> list[str]:
    return screen_text(pilot.app).split("\n")


def crumbs(pilot: Pilot[int]) -> str:
    return rows(pilot)[-2].strip()


async def test_tabs_open_by_number_and_one_that_is_not_there_says_so() -> None:
    async with words_app().run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert rows(pilot)[1].startswith(" [1 Signals] 2 Traffic  3 Adapters")
        await pilot.press("2")
        await pilot.pause()
        assert isinstance(pilot.app.screen, OtherScreen)
        assert rows(pilot)[1].startswith("  1 Signals [2 Traffic]")
        await pilot.press("6")
        await pilot.pause()
        assert crumbs(pilot) == "logs cannot be shown here"


async def test_a_screen_opened_on_top_is_left_with_escape_and_only_the_front_one_asks() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=NARROW) as pilot:
        await pilot.pause()
        assert {*feed.asks} == {"head", "signals"}
        pilot.app.open("traffic")
        await pilot.pause()
        assert {*feed.asks} == {"head", "traffic"}
        assert crumbs(pilot) == "words › other"
        await pilot.press("escape")
        await pilot.pause()
        assert crumbs(pilot) == "words"
        assert {*feed.asks} == {"head", "signals"}
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(pilot.app.screen, WordsScreen)


async def test_the_command_line_does_what_is_typed_and_says_what_it_cannot() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=NARROW) as pilot:
        await typed(pilot, ":pau")
        assert rows(pilot)[-1] == " :pau"
        await pilot.press("tab")
        assert rows(pilot)[-1] == " :pause"
        await pilot.press("enter")
        await pilot.pause()
        assert feed.calls == ["pause"]
        await typed(pilot, ":zoo")
        await pilot.press("enter")
        await pilot.pause()
        assert crumbs(pilot).startswith("no command 'zoo'")
        await pilot.press("colon", "up")
        assert rows(pilot)[-1] == " :zoo"
        await pilot.press("escape")
        await pilot.pause()
        assert rows(pilot)[-1].endswith("? help")
        await typed(pilot, ":traf")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, OtherScreen)
        await typed(pilot, ":q")
        await pilot.press("enter")
        await pilot.pause()
    assert pilot.app.return_value == 0


async def test_a_filter_is_tried_while_it_is_typed_and_its_error_points_at_the_column() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=NARROW) as pilot:
        await typed(pilot, "/word:s letters>x")
        await pilot.pause()
        text = rows(pilot)
        assert text[-1] == " /word:s letters>x"
        assert text[-2] == "                 ▼ 'x' is no number, expected one for letters, such as letters>3"
        assert text[-1].index("x") == text[-2].index("▼")
        await pilot.press("enter")
        await pilot.pause()
        assert rows(pilot)[-1] == " /word:s letters>x"
        assert feed.asks["signals"][1].filter == ""
        await pilot.press("ctrl+u")
        await typed(pilot, "stores")
        await pilot.press("enter")
        await pilot.pause()
        assert feed.asks["signals"][1].filter == "stores"
        assert rows(pilot)[2] == " 1 words"
        await pilot.press("escape")
        await pilot.pause()
        assert rows(pilot)[2] == " 2 words"


async def test_a_key_that_is_off_says_why() -> None:
    async with words_app(start="traffic").run_test(size=NARROW) as pilot:
        await pilot.press("slash")
        await pilot.pause()
        assert crumbs(pilot) == "filter is off: there is no list to filter here"
        await pilot.press("T")
        await pilot.pause()
        assert crumbs(pilot) == "signals then is off: nothing with a time is selected"


async def test_what_is_said_again_stands_as_long_as_what_is_said_once() -> None:
    class BriefScreen(WordsScreen):
        SAID_S = 0.6

    async with words_app(screens={"signals": BriefScreen}).run_test(size=NARROW) as pilot:
        await pilot.pause()
        pilot.app.say("nothing there")
        await pilot.pause(0.4)
        pilot.app.say("nothing there")
        await pilot.pause(0.4)
        assert crumbs(pilot) == "nothing there"
        await pilot.pause(0.4)
        assert crumbs(pilot) == "words"


async def test_help_lists_the_keys_that_work_here_and_enter_runs_one() -> None:
    feed = FakeFeed()
    async with words_app(feed, start="traffic").run_test(size=WIDE) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(pilot.app.screen, HelpScreen)
        text = screen_text(pilot.app)
        assert "/            (off: there is no list to filter here) Filter the list" in text
        assert "Shift-drag" in text
        options = pilot.app.screen.query_one("#keys")
        index = next(at for at, option in enumerate(options.options) if "Freeze the screen" in str(option.prompt))
        options.highlighted = index
        await pilot.press("enter")
        await pilot.pause()
        assert feed.calls == ["pause"]
        assert not isinstance(pilot.app.screen, HelpScreen)


async def test_the_palette_finds_a_command_and_begins_one_that_needs_more() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=NARROW) as pilot:
        await pilot.press("ctrl+p")
        await typed(pilot, "to live")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await pilot.pause()
        assert feed.calls == ["live"]
        await pilot.press("ctrl+p")
        await typed(pilot, "a time")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await pilot.pause()
        assert rows(pilot)[-1] == " :at"


async def test_copy_and_the_copy_menu_write_what_is_selected(home: Path) -> None:
    clip = home / ".cache" / "roundhouse" / "clip.txt"
    async with words_app().run_test(size=WIDE) as pilot:
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert clip.read_text() == "stores"
        assert crumbs(pilot) == "copied 6 characters by OSC 52, and in ~/.cache/roundhouse/clip.txt"
        clip.unlink()
        await pilot.press("Y")
        await pilot.pause()
        assert "Words  (6 characters)" in screen_text(pilot.app)
        await pilot.press("enter")
        await pilot.pause()
        assert clip.read_text() == "stores"


async def test_export_writes_the_view_and_never_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with words_app().run_test(size=WIDE) as pilot:
        await pilot.pause()
        await pilot.press("e")
        await pilot.pause()
        assert rows(pilot)[-1] == " :export json roundhouse-signals-20261129T114647Z.json"
        await pilot.press("enter")
        await pilot.pause()
        written = tmp_path / "roundhouse-signals-20261129T114647Z.json"
        assert [row["word"] for row in json.loads(written.read_text())["rows"]] == ["stores", "support-agent"]
        await pilot.press("e", "enter")
        await pilot.pause()
        assert "is there already" in crumbs(pilot)
        for form, begins in (("csv", "word,letters\nstores,6\n"), ("svg", "<svg")):
            pilot.app.obey(f"export {form} view.{form}")
            assert (tmp_path / f"view.{form}").read_text().startswith(begins)
        # Whoever opens the picture fetches nothing with it.
        svg = (tmp_path / "view.svg").read_text()
        assert "cdn" not in svg
        assert svg.count("http") == svg.count("http://www.w3.org/2000/svg") + svg.count("https://www.textualize.io")
        assert "stores" in "".join(ElementTree.fromstring(svg).itertext())
        pilot.app.obey("export png")
        await pilot.pause()
        assert crumbs(pilot) == "'png' is no format, expected json, csv, svg"


async def test_time_stands_still_steps_goes_to_a_time_and_back_to_live() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=WIDE) as pilot:
        await pilot.press("space", "left_square_bracket", "right_curly_bracket")
        await pilot.pause()
        assert feed.calls == ["pause", ("step", -1), ("step", 10)]
        feed.calls.clear()
        await pilot.press("space")
        assert feed.calls == ["live"]
        await pilot.press("b")
        await typed(pilot, "11:31")
        await pilot.press("enter")
        await pilot.pause()
        assert feed.calls[-1] == ("seek", datetime(2026, 11, 29, 11, 31, tzinfo=UTC))
        assert " REPLAY 11:31:00Z " in rows(pilot)[0]
        await pilot.press("L")
        assert feed.calls[-1] == "live"
        pilot.app.obey("at 2026-11-29T12:00Z")
        await pilot.pause()
        assert crumbs(pilot).startswith("2026-11-29 12:00:00Z is after the newest record")


async def test_a_step_is_gone_to_by_its_number() -> None:
    at = datetime(2026, 11, 29, 11, 40, tzinfo=UTC)
    steps = held().steps.clear(1).with_columns(step=pl.lit(7, pl.Int64), at=pl.lit(at).cast(pl.Datetime("us", "UTC")))
    feed = FakeFeed(held(steps=steps))
    async with words_app(feed).run_test(size=WIDE) as pilot:
        pilot.app.obey("at @7")
        await pilot.pause()
        assert feed.calls[-1] == ("seek", at)
        pilot.app.obey("at @8")
        await pilot.pause()
        assert feed.calls[-1] == "live"
        assert crumbs(pilot) == "there is no step 8 with a time here"
        assert "step_time" not in feed.asks


async def test_the_mouse_is_handed_over_and_that_is_said() -> None:
    async with words_app().run_test(size=WIDE) as pilot:
        assert "MOUSE OFF" not in rows(pilot)[0]
        await pilot.press("M")
        await pilot.pause()
        assert "MOUSE OFF - drag to select" in rows(pilot)[0]
        pilot.app.obey("mouse on")
        await pilot.pause()
        assert "MOUSE OFF" not in rows(pilot)[0]


async def test_an_adapter_that_no_record_names_is_refused_by_name() -> None:
    steps = pl.DataFrame({"adapter": ["refund", "triage"], "step": [1, 1]})
    feed = FakeFeed(held(steps=fitted(steps, "steps")))
    async with words_app(feed).run_test(size=WIDE) as pilot:
        await pilot.pause()
        pilot.app.obey("adapter refnd")
        await pilot.pause()
        assert "no record is of the adapter 'refnd', expected refund, triage" in screen_text(pilot.app)
        assert feed.asks["signals"][1].adapter is None
        pilot.app.obey("signals triag")
        await pilot.pause()
        assert "no record is of the adapter 'triag', expected refund, triage" in screen_text(pilot.app)
        assert feed.asks["signals"][1].adapter is None


async def test_before_all_data_an_adapter_is_refused_by_the_names_of_later_records() -> None:
    steps = pl.DataFrame({"adapter": ["refund"], "step": [1], "at": [NOW]})
    feed = FakeFeed(held(steps=fitted(steps, "steps")).until(NOW - timedelta(days=1)))
    async with words_app(feed).run_test(size=WIDE) as pilot:
        await pilot.pause()
        pilot.app.obey("adapter refnd")
        await pilot.pause()
        assert "no record is of the adapter 'refnd', expected refund" in screen_text(pilot.app)
        pilot.app.obey("adapter refund")
        await pilot.pause()
        assert feed.asks["signals"][1].adapter == "refund"


@pytest.mark.parametrize(("adapter", "ends"), [("refnd", True), ("refund", False)])
async def test_an_adapter_to_begin_with_is_refused_as_soon_as_names_are_known(adapter: str, ends: bool) -> None:
    feed = FakeFeed(held())
    app = words_app(feed, adapter=adapter)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert app.refusal is None
        feed.put(held(steps=fitted(pl.DataFrame({"adapter": ["refund"], "step": [1]}), "steps")))
        await pilot.pause()
        said = None if app.refusal is None else str(app.refusal)
        assert said == ("no record is of the adapter 'refnd', expected refund" if ends else None)
        assert app.return_value == (2 if ends else None)


async def test_narrowing_to_an_adapter_asks_again_for_it() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=WIDE) as pilot:
        pilot.app.obey("adapter refund")
        await pilot.pause()
        assert feed.asks["signals"][1].adapter == feed.asks["head"][1].adapter == "refund"
        pilot.app.obey("adapter")
        await pilot.pause()
        assert feed.asks["signals"][1].adapter is None


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_the_console_is_left_by_a_key(key: str) -> None:
    app = words_app()
    async with app.run_test(size=NARROW) as pilot:
        await pilot.press(key)
        await pilot.pause()
    assert (app.return_value or 0, app.return_code) == (0, 0)
    assert not app.is_running


async def test_keys_can_be_others_and_the_hints_and_help_show_them() -> None:
    feed = FakeFeed()
    app = words_app(feed, keymap={"time.pause": "p", "frame.copy": "Z"})
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        await pilot.press("space")
        assert feed.calls == []
        await pilot.press("p")
        assert feed.calls == ["pause"]
        assert "Z copy" in rows(pilot)[-1]
        await pilot.press("question_mark")
        await pilot.pause()
        assert "Z            Copy the focused thing" in screen_text(app)


async def test_the_frame_is_there_before_anything_is_loaded() -> None:
    loaded = threading.Event()

    def load() -> dict[str, Topic]:
        assert loaded.wait(20)
        return {name: Topic(name, build_words) for name in ("signals", "traffic")}

    app = words_app()
    app._given_topics = load
    async with app.run_test(size=NARROW) as pilot:
        await pilot.pause()
        text = rows(pilot)
        assert text[0].split() == ["roundhouse", "…", "reading", "RO"]
        assert text[1].startswith(" [1Sig] 2Traf")
        await pilot.press("2")
        await pilot.pause(0.1)
        assert rows(pilot)[1].startswith(" [1Sig] 2Traf")
        loaded.set()
        await app.workers.wait_for_complete()
        for _ in range(100):
            if len(rows(pilot)) > 2 and rows(pilot)[2]:
                break
            await pilot.pause(0.05)
        # The key that was typed meanwhile opens its screen.
        assert rows(pilot)[1].startswith("  1Sig [2Traf]")
        assert rows(pilot)[2] == " 2 words"


async def test_a_terminal_too_small_for_a_screen_says_how_large_one_must_be() -> None:
    async with words_app().run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        assert rows(pilot)[1].strip() == "40x10 is too small for a screen: 60x15"
        await pilot.resize_terminal(60, 15)
        await pilot.pause()
        assert "too small" not in screen_text(pilot.app)


async def test_a_remark_goes_with_the_screen_it_was_said_on() -> None:
    async with words_app().run_test(size=NARROW) as pilot:
        await pilot.pause()
        pilot.app.say("nothing to open here")
        await pilot.pause()
        assert crumbs(pilot) == "nothing to open here"
        pilot.app.open("traffic")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert crumbs(pilot) == "words"
