"""The frame alone, while what fills it is loaded."""

from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget
from textual.widgets import Static

from console.watch.frame.watch_screen import WatchScreen
from console.watch.topic import View


class OpeningScreen(WatchScreen):
    """Says that it is reading."""

    TITLE: ClassVar[str] = "reading"  # pyright: ignore[reportIncompatibleVariableOverride]

    def compose_body(self) -> Iterable[Widget]:
        """Nothing to see yet."""
        yield Static("", markup=False)

    def show(self, view: View) -> None:
        """No view is made for it."""
        raise AssertionError(view)
