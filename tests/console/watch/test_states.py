"""Live, paused, replay, stale, disconnected, no data and reading: each looks different, without any colour too."""

from datetime import timedelta

import msgspec
import pytest
from rich.style import Style
from textual.pilot import Pilot

from console.watch.feed import Feed
from console.watch.frame.crash import crash_text
from console.watch.frame.head import age, ago
from console.watch.frame.row import Part, row_strip
from console.watch.held import Origin
from console.watch.log_part import LogPart
from console.watch.status import Status
from console.watch.topic import View
from console.watch.views.head import HeadView, Tally
from console.watch.widgets.palette import STATES, Palette
from tests.console.watch.fake_feed import NOW, FakeFeed
from tests.console.watch.fake_screen import WordsScreen, words_app
from tests.console.watch.fake_source import FakeSource, steps
from tests.console.watch.screen_text import screen_text, strips

STANDINGS = {
    "live": (Status(state="live", at=NOW, lag_s=0.4), "● LIVE 11:46:47Z  lag 0.4s"),
    "paused": (Status(state="paused", at=NOW, behind_s=180.0), "|| PAUSED 11:46:47Z 3m behind"),
    "replay": (Status(state="replay", at=NOW, behind_s=7200.0), " REPLAY 11:46:47Z  2h behind"),
    "stale": (Status(state="stale", at=NOW, lag_s=95.0, quiet_s=95.0), "~ STALE, nothing for 95s"),
    "finished": (Status(state="finished", at=NOW, lag_s=9e7), "= LOG read"),
    "disconnected": (
        Status(state="disconnected", at=NOW, error="database is locked", retry_in_s=3.0),
        "✕ DISCONNECTED",
    ),
    "no_data": (Status(state="no_data"), "○ n/d"),
    "reading": (Status(state="reading"), "… reading"),
    "log": (Status(state="reading", part=LogPart(turns=0, share=0.12)), "… reading 12 %"),
    "part": (Status(state="part", at=NOW, part=LogPart(turns=1204, share=0.12)), "… newest 1,204 turns; reading 12 %"),
}


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15), (50, 8)])
async def test_each_state_says_itself_in_row_one(size: tuple[int, int]) -> None:
    feed = FakeFeed()
    seen: dict[str, str] = {}
    async with words_app(feed).run_test(size=size) as pilot:
        for state, (status, words) in STANDINGS.items():
            feed.set(status)
            await pilot.pause()
            seen[state] = screen_text(pilot.app)
            expected = words if size[0] >= 120 else words.replace(", nothing for", "").replace("1,204 turns", "1,204t")
            assert expected in seen[state].split("\n")[0]
    assert len({*seen.values()}) == len(STANDINGS)


async def until(pilot: Pilot[int], words: str) -> None:
    """Until the words stand on the screen; a test that waits for ever is ended by its timeout."""
    while words not in screen_text(pilot.app):
        await pilot.pause(0.02)


async def test_a_screen_that_waits_for_all_of_a_log_says_so() -> None:
    log = Origin(path="logs/run", format="native", part=LogPart(turns=3))
    source = FakeSource(steps(2)._replace(source=log))
    feed = Feed(lambda: source, interval_s=0.005)
    async with words_app(feed).run_test(size=(120, 36)) as pilot:
        await until(pilot, "shown once all of the log was read")
        source.next = steps(9)._replace(source=msgspec.structs.replace(log, part=None))
        await until(pilot, "2 words")
        assert "shown once all" not in screen_text(pilot.app)


async def test_without_colour_every_state_still_looks_different_and_no_colour_is_written() -> None:
    feed = FakeFeed()
    seen: set[str] = set()
    async with words_app(feed, palette=Palette("none")).run_test(size=(80, 24)) as pilot:
        for status, _ in STANDINGS.values():
            feed.set(status)
            await pilot.pause()
            seen.add(screen_text(pilot.app))
            for strip in strips(pilot.app):
                for _, style, _ in strip:
                    assert style is not None
                    assert style.color is None
                    assert style.bgcolor is None
    assert len(seen) == len(STANDINGS)


async def test_in_ascii_every_state_is_written_in_ascii() -> None:
    feed = FakeFeed()
    seen: set[str] = set()
    async with words_app(feed, palette=Palette("16", ascii=True)).run_test(size=(80, 24)) as pilot:
        for status, _ in STANDINGS.values():
            feed.set(status)
            await pilot.pause()
            text = screen_text(pilot.app)
            seen.add(text)
            frame = [line for line in text.split("\n") if "▊" not in line]
            assert all(line.isascii() for line in frame[:3] + frame[-2:])
    assert len(seen) == len(STANDINGS)


async def test_a_store_that_is_not_read_has_a_banner_with_the_reason_and_the_retry() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=(80, 24)) as pilot:
        feed.set(STANDINGS["disconnected"][0])
        await pilot.pause()
        assert "✕ not read: database is locked; next try in 3.0s" in screen_text(pilot.app)
        feed.set(STANDINGS["live"][0])
        await pilot.pause()
        assert "not read" not in screen_text(pilot.app)


async def test_a_record_ahead_of_the_clock_has_a_banner_and_row_one_is_as_ever() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=(80, 24)) as pilot:
        feed.set(Status(state="live", at=NOW, lag_s=0.4, ahead_s=86_400.0))
        await pilot.pause()
        first, *rest = screen_text(pilot.app).split("\n")
        assert "● LIVE 11:46:47Z  lag 0.4s" in first
        assert any("▲ newest record is 24h ahead of this clock" in line for line in rest)


def test_a_time_ahead_of_the_newest_is_a_word_and_no_age_is_negative() -> None:
    assert [ago(NOW - timedelta(seconds=seconds), NOW) for seconds in (95, 1, -60, -61)] == [
        "95s", "1.0s", "0.0s", "ahead",
    ]  # fmt: skip
    assert age(-5.0) == "0.0s"


async def test_old_values_are_dim_and_the_head_is_not() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=(80, 24)) as pilot:

        def dim() -> tuple[bool, bool]:
            """Whether any of row 1, and whether the whole body is dim."""
            drawn = strips(pilot.app)
            body = [style for strip in drawn[3:8] for text, style, _ in strip if text.strip()]
            return any(style and style.dim for _, style, _ in drawn[0]), all(style and style.dim for style in body)

        await pilot.pause()
        assert dim() == (False, False)
        feed.set(STANDINGS["stale"][0])
        await pilot.pause()
        assert dim() == (False, True)
        feed.set(STANDINGS["live"][0])
        await pilot.pause()
        assert dim() == (False, False)


async def test_a_view_that_cannot_be_built_says_so_and_the_last_one_stays() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        feed.fail("signals", "no column \x1b[31mred")
        await pilot.pause()
        text = screen_text(pilot.app)
        assert "✕ this view could not be built: no column \\x1b[31mred" in text
        assert "support-agent" in text
        feed.again()
        await pilot.pause()
        assert "could not be built" not in screen_text(pilot.app)


def test_every_alert_state_has_a_shape_and_a_word_of_its_own_in_every_palette() -> None:
    for ascii_only in (False, True):
        palette = Palette("none", ascii=ascii_only)
        assert len({palette.glyph(state) for state in STATES}) == len(STATES)
        assert len({palette.word(state) for state in STATES}) == len(STATES)


async def test_counts_of_alerts_stand_in_row_one_and_at_their_tab() -> None:
    feed = FakeFeed()
    app = words_app(feed)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert isinstance(app.facts().head, HeadView)
        app._head = msgspec.structs.replace(
            app.facts().head, alerts=(Tally(state="critical", count=1), Tally(state="pending", count=2))
        )
        feed.set(Status(state="live", at=NOW, lag_s=0.5))
        await pilot.pause()
        first, second = screen_text(app).split("\n")[:2]
        assert first.endswith("lag 0.5s ◆1 △2 RO")
        assert "4 Alerts ◆1 △2" in second


class Broken(WordsScreen):
    """Falls over when something is shown."""

    def show(self, view: View) -> None:
        hidden = "\x1b]0;owned\x07"
        raise ValueError(f"cannot show {hidden}")


async def test_a_screen_that_falls_over_ends_the_console_with_an_error() -> None:
    app = words_app(screens={"signals": Broken})
    with pytest.raises(ValueError, match="cannot show"):
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
    assert app.return_code == 1


def test_what_is_said_of_a_fall_names_the_screen_and_hides_control_characters() -> None:
    try:
        raise ValueError("cannot show \x1b]0;owned\x07")
    except ValueError as error:
        said = crash_text(error, "signals")
    assert said.endswith(
        "roundhouse watch: the console ended on the screen signals: ValueError: cannot show \\x1b]0;owned\\x07"
    )
    assert "Traceback" in said
    assert "test_states.py" in said
    assert "\x1b" not in said
    assert "\x07" not in said


def test_a_row_is_exactly_as_wide_as_its_terminal_whatever_its_letters() -> None:
    wide, combining = "退款" * 30, "e\u0301" * 50
    for text in (wide, combining, "a\x1b[31m\u202eb" * 20, "", "x"):
        for width in (1, 7, 20, 61):
            strip = row_strip([Part(text), Part(" end", Style(bold=True), right=True)], width)
            assert strip.cell_length == sum(segment.cell_length for segment in strip) == width
            drawn = "".join(segment.text for segment in strip)
            assert "\x1b" not in drawn
            assert "\u202e" not in drawn
    cut = row_strip([Part("a long text that is cut"), Part(" end", right=True)], 12)
    assert "".join(segment.text for segment in cut) == "a long … end"


async def test_the_layout_follows_the_terminal_while_it_runs() -> None:
    feed = FakeFeed()
    async with words_app(feed).run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        heights = {}
        for width, height in ((120, 36), (80, 24), (60, 15), (59, 15), (20, 3), (1, 1), (200, 60), (120, 36)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            text = screen_text(pilot.app).split("\n")
            assert len(text) == height
            heights[width, height] = text
        assert heights[80, 24][1].startswith(" [1Sig] 2Traf")
        assert heights[60, 15][1].strip() == "2 words"
        told = [" ● LIVE 11:46:47Z  lag 0.4s 2 words", " 59x15 is too small for a screen: 60x15"]
        assert heights[59, 15] == [*told, *[""] * 13]
        assert heights[200, 60][1].startswith(" [1 Signals] 2 Traffic")


@pytest.mark.parametrize(
    ("late_s", "said"), [(0, None), (1, None), (23, "~ view 23s behind"), (130, "~ view 2m behind")]
)
async def test_a_view_that_rests_says_how_far_it_is_behind_what_was_read(late_s: int, said: str | None) -> None:
    feed = FakeFeed(FakeFeed().held._replace(newest_at=NOW - timedelta(seconds=late_s)))
    async with words_app(feed).run_test(size=(120, 36)) as pilot:
        feed.set(Status(state="live", at=NOW, lag_s=0.4))
        await pilot.pause()
        row = screen_text(pilot.app).split("\n")[0]
        assert ("behind" in row) == (said is not None)
        assert said is None or said in row
        feed.put(feed.held._replace(newest_at=NOW))
        await pilot.pause()
        assert "behind" not in screen_text(pilot.app).split("\n")[0]
