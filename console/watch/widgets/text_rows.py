"""Rows of styled text that scroll: detail panes, timelines, audits."""

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.watch.frame.keys import bound
from console.watch.frame.row import Part, row_strip


class TextRows(ScrollView, can_focus=True):
    """Draws rows of parts; each is cut to the width, and made safe for the terminal, by `row_strip`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("move.down", "scroll_down"),
        bound("move.up", "scroll_up"),
        bound("move.page_down", "page_down"),
        bound("move.page_up", "page_up"),
        bound("move.first", "scroll_home"),
        bound("move.last", "scroll_end"),
    ]
    DEFAULT_CSS = "TextRows { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: list[tuple[Part, ...]] = []

    def set(self, rows: Sequence[Sequence[Part]]) -> None:
        """Draws other rows, if they are other ones; stays where it was scrolled to."""
        told = [tuple(row) for row in rows]
        if told != self._rows:
            self._rows = told
            self.virtual_size = Size(0, len(told))
            self.refresh()

    @property
    def text(self) -> str:
        """What it says, a line each row."""
        return "\n".join("".join(part.text for part in row).rstrip() for row in self._rows)

    def render_line(self, y: int) -> Strip:
        """One row in sight."""
        index, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        strip = Strip.blank(width, Style()) if index >= len(self._rows) else row_strip(self._rows[index], width)
        return self._marked(strip) if self.has_focus else strip

    def _marked(self, strip: Strip) -> Strip:
        """The row of the pane that `Tab` chose: a bar where it begins with a blank."""
        if not strip.text.startswith(" "):
            return strip
        return Strip.join([Strip([Segment("┃")]), strip.crop(1)])
