"""The windowed table: only what is in sight is asked for and drawn, whatever the number of rows."""

import random
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip

from console.watch.widgets.palette import Palette
from console.watch.widgets.table import Cell, Column, WindowedTable
from tests.console.watch.screen_text import screen_text

COLUMNS = (Column("id", "id", 9), Column("n", "number", 8, right=True), Column("more", "more", 12, wide=True))


class Shown(App[None]):
    """A table that answers what is wanted of it, and notes it."""

    def __init__(self, total: int, *, answer: bool = True) -> None:
        super().__init__()
        self.total = total
        self.answer = answer
        self.wanted: list[tuple[int, int]] = []
        self.selected: list[int] = []

    def compose(self) -> ComposeResult:
        """The table alone."""
        yield WindowedTable(COLUMNS, Palette("none"))

    def on_mount(self) -> None:
        """All the rows there are."""
        self.query_one(WindowedTable).set_total(self.total)

    def on_windowed_table_window_wanted(self, event: WindowedTable.WindowWanted) -> None:
        """Gives the rows."""
        self.wanted.append((event.first, event.count))
        if self.answer:
            rows = range(event.first, event.first + event.count)
            self.query_one(WindowedTable).set_rows(
                event.first, [[f"row{n}", Cell(str(n), "critical"), "x"] for n in rows]
            )

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """Notes it."""
        self.selected.append(event.row)


@asynccontextmanager
async def table(total: int, **more: Any):
    """A table at 60x12."""
    app = Shown(total, **more)
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        yield cast("Pilot[None]", pilot), app


async def after(pilot: Pilot[None], *keys: str) -> list[str]:
    """The lines after some keys."""
    await pilot.press(*keys)
    await pilot.pause()
    return screen_text(pilot.app).splitlines()


async def test_of_200_000_rows_only_those_around_what_is_in_sight_are_asked_for() -> None:
    async with table(200_000) as (pilot, app):
        lines = screen_text(app).splitlines()
        assert lines[0] == "  id          number"
        assert lines[1] == "> row0             0"
        assert lines[11] == "  row10           10"
        lines = await after(pilot, "G")
        assert lines[11] == "> row199999   199999"
        lines = await after(pilot, "k")
        assert lines[10] == "> row199998   199998"
        assert (await after(pilot, "g"))[1].startswith("> row0")
        assert sum(count for _, count in app.wanted) < 300


async def test_a_move_within_what_is_in_sight_draws_the_two_rows_of_it() -> None:
    drawn: list[int] = []

    class Noting(WindowedTable):
        def render_line(self, y: int) -> Strip:
            drawn.append(y)
            return super().render_line(y)

    class OfNoting(Shown):
        def compose(self) -> ComposeResult:
            yield Noting(COLUMNS, Palette("none"))

    app = OfNoting(1_000)
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.press("j", "j")
        await pilot.pause()
        drawn.clear()
        await pilot.press("j")
        await pilot.pause()
        assert sorted(set(drawn)) == [3, 4]


async def test_after_any_keys_one_row_in_sight_is_that_of_the_cursor() -> None:
    source = random.Random(5)
    async with table(60) as (pilot, app):
        shown = app.query_one(WindowedTable)
        for _ in range(120):
            await pilot.press(source.choice(["j", "j", "j", "k", "k", "g", "G", "pagedown", "pageup", "w", "l"]))
            await pilot.pause()
            lines = screen_text(app).splitlines()
            rows = {at + shown.scroll_offset.y for at, line in enumerate(lines[1:]) if line.startswith("> ")}
            assert rows == {shown.cursor}
            reversed_rows = {y - 1 + shown.scroll_offset.y for y in range(1, 12) if _reversed(shown, y)}
            assert reversed_rows == {shown.cursor}


def _reversed(shown: WindowedTable, y: int) -> bool:
    lead = next(iter(shown.render_line(y)))
    return lead.style is not None and bool(lead.style.reverse)


async def test_moving_down_scrolls_and_asks_again_before_the_window_ends() -> None:
    async with table(1_000) as (pilot, app):
        for _ in range(6):
            lines = await after(pilot, "pagedown")
        assert lines[11] == "> row60           60"
        assert not any("…" in line for line in lines)
        lines = await after(pilot, "pageup")
        assert lines[1].startswith("> row50           50")
        assert app.wanted[0][0] == 0


async def test_rows_that_are_not_there_yet_are_dots_and_move_all_the_same() -> None:
    async with table(100, answer=False) as (pilot, app):
        lines = await after(pilot, "j", "j")
        assert lines[3] == "> …"
        assert app.query_one(WindowedTable).cursor == 2


async def test_wide_mode_shows_the_wide_columns() -> None:
    async with table(5) as (pilot, _):
        assert "more" not in screen_text(pilot.app)
        assert (await after(pilot, "w"))[0].endswith("more")


async def test_h_and_l_pass_over_columns_until_the_last_is_in_sight_and_the_first_stays() -> None:
    async with table(2, answer=False) as (pilot, app):
        widget = app.query_one(WindowedTable)
        assert (await after(pilot, "l"))[0] == "  id          number"
        widget.set_columns([Column(name, name, 18) for name in ("one", "two", "three", "four", "five")])
        widget.set_rows(0, [["a", "b", "c", "d", "e"]])
        assert (await after(pilot, "h"))[0].split()[:3] == ["one", "two", "three"]
        header, row = (await after(pilot, "l"))[:2]
        assert header.startswith("< one                three              four")
        assert row.startswith("> a                  c                  d")
        assert (await after(pilot, "l", "l", "l"))[0].split() == ["<", "one", "four", "five"]
        assert (await after(pilot, "h", "h", "h"))[0].split()[:3] == ["one", "two", "three"]


async def test_enter_opens_and_a_click_chooses_then_opens() -> None:
    async with table(50) as (pilot, app):
        await after(pilot, "j", "enter")
        assert app.selected == [1]
        await pilot.click(WindowedTable, offset=(3, 5))
        await pilot.pause()
        assert app.query_one(WindowedTable).cursor == 4
        assert app.selected == [1]
        await pilot.pause(0.6)
        await pilot.click(WindowedTable, offset=(3, 5))
        await pilot.pause()
        assert app.selected == [1, 4]


async def test_following_stays_at_the_last_row_until_the_cursor_is_moved() -> None:
    async with table(50) as (pilot, app):
        widget = app.query_one(WindowedTable)
        widget.follow = True
        widget.action_last()
        assert widget.cursor == 49
        widget.set_total(60)
        await pilot.pause()
        assert widget.cursor == 59
        await after(pilot, "k")
        widget.set_total(70)
        assert widget.cursor == 58


async def test_fewer_rows_than_before_move_the_cursor_up() -> None:
    async with table(50) as (pilot, app):
        await after(pilot, "G")
        widget = app.query_one(WindowedTable)
        widget.set_total(3)
        await pilot.pause()
        assert widget.cursor == 2
        widget.set_total(0)
        await after(pilot, "enter")
        assert app.selected == []


async def test_a_row_of_one_cell_is_a_title_over_the_whole_width() -> None:
    async with table(1, answer=False) as (pilot, app):
        app.query_one(WindowedTable).set_rows(0, [[Cell("a title that is longer than its column is wide")]])
        await pilot.pause()
        assert screen_text(app).splitlines()[1] == "> a title that is longer than its column is wide"


@pytest.mark.parametrize("text", ["a\x1b[31mb", "tab\there", "line\nbreak"])
async def test_control_characters_are_written_as_escapes(text: str) -> None:
    async with table(1, answer=False) as (pilot, app):
        app.query_one(WindowedTable).set_rows(0, [[text, "1", "x"]])
        await pilot.pause()
        line = screen_text(app).splitlines()[1]
        assert "\x1b" not in line
        assert "\\" in line


async def test_a_row_gone_to_before_the_next_layout_is_in_sight() -> None:
    async with table(0) as (pilot, app):
        shown = app.query_one(WindowedTable)
        shown.set_total(100)
        shown.move_to(99)
        await pilot.pause(0.1)
        lines = screen_text(app).splitlines()
    assert [lines[at].split()[:2] for at in (1, -1)] == [["row89", "89"], [">", "row99"]]


async def test_a_text_beside_the_scrollbar_is_cut_where_it_says_so() -> None:
    async with table(100, answer=False) as (pilot, app):
        shown = app.query_one(WindowedTable)
        shown.set_columns((Column("id", "id", 9), Column("text", "text", 48)))
        shown.set_rows(0, [["a", "x" * 48]] * 30)
        assert "xx…" in (await after(pilot))[1]
