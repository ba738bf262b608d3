"""Rows of text: the pane that has the focus says so by a letter, not by a colour alone."""

import pytest
from textual.app import ComposeResult

from console.watch.frame.row import Part
from console.watch.frame.terminal_app import TerminalApp
from console.watch.widgets.palette import Palette
from console.watch.widgets.text_rows import TextRows
from tests.console.watch.screen_text import screen_text


class TwoPanes(TerminalApp):
    """Two panes, of which the second has fewer rows than room."""

    def compose(self) -> ComposeResult:
        """One above the other."""
        for name in ("one", "two"):
            pane = TextRows(id=name)
            pane.set([[Part(f" {name}")], [Part("─ rule")]])
            yield pane


@pytest.mark.parametrize(("ascii_only", "bar", "rule"), [(False, "┃", "─ rule"), (True, "|", "- rule")])
async def test_a_bar_stands_before_the_rows_of_the_pane_with_the_focus(
    *, ascii_only: bool, bar: str, rule: str
) -> None:
    app = TwoPanes(Palette(ascii=ascii_only), mouse=False)
    async with app.run_test(size=(12, 6)) as pilot:
        app.query_one("#two").focus()
        await pilot.pause()
        shown = [line.rstrip() for line in screen_text(app).split("\n")]
        assert shown == [" one", rule, "", f"{bar}two", rule, bar]
        app.query_one("#one").focus()
        await pilot.pause()
        shown = [line.rstrip() for line in screen_text(app).split("\n")]
        assert shown == [f"{bar}one", rule, bar, " two", rule, ""]
