"""A table of any number of rows that holds and draws only the ones in sight."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from collector.terminal_text import terminal_safe
from console.watch.frame.keys import bound
from console.watch.frame.row import shortened
from console.watch.widgets.palette import Palette, State

LEAST = 4
"""Cells of a text that are still worth showing."""
MARGIN = 2
"""Screenfuls of rows asked for beyond those in sight, each way."""


class Column(NamedTuple):
    """One column of a table."""

    key: str
    title: str
    width: int
    right: bool = False
    """Whether its cells stand at the right, as numbers do."""
    wide: bool = False
    """Whether it is shown in wide mode only."""


class Cell(NamedTuple):
    """One cell: its text, safe for a terminal, and the state that its style repeats."""

    text: str
    state: State | None = None
    dim: bool = False


class WindowedTable(ScrollView, can_focus=True):
    """Rows are given for a window; what is missing is asked for by `WindowWanted`.

    A row of a single cell, in a table of several columns, is a title over the whole width.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("move.down", "move(1)"),
        bound("move.up", "move(-1)"),
        bound("move.page_down", "page(1)"),
        bound("move.page_up", "page(-1)"),
        bound("move.first", "first"),
        bound("move.last", "last"),
        bound("open", "choose"),
        bound("list.wide", "wide"),
        bound("move.left", "column(-1)"),
        bound("move.right", "column(1)"),
    ]
    DEFAULT_CSS = "WindowedTable { height: 1fr; overflow-x: hidden; }"

    class WindowWanted(Message):
        """Rows are in sight that were not given."""

        def __init__(self, table: "WindowedTable", first: int, count: int) -> None:
            super().__init__()
            self.table = table
            self.first = first
            self.count = count

        @property
        def control(self) -> "WindowedTable":
            """The table."""
            return self.table

    class RowHighlighted(Message):
        """The cursor stands on another row."""

        def __init__(self, table: "WindowedTable", row: int) -> None:
            super().__init__()
            self.table = table
            self.row = row

        @property
        def control(self) -> "WindowedTable":
            """The table."""
            return self.table

    class RowSelected(RowHighlighted):
        """A row was chosen with Enter or a click."""

    def __init__(self, columns: Sequence[Column], palette: Palette, *, header: bool = True, id: str | None = None):
        super().__init__(id=id)
        if palette.ascii:
            # The bar is drawn in blocks.
            self.styles.scrollbar_size_vertical = 0
        self._columns = tuple(columns)
        self._palette = palette
        self._header = header
        self._total = 0
        self._first = 0
        self._rows: list[Sequence[Cell | str]] = []
        self._wide = False
        self._passed = 0
        self._cursor = 0
        self._asked: tuple[int, int] | None = None
        self._drawn: dict[tuple[int, bool, int], Strip] = {}
        self.follow = False
        """Whether the cursor stays on the last row while rows are added."""

    @property
    def cursor(self) -> int:
        """The row of the cursor."""
        return self._cursor

    @property
    def wide(self) -> bool:
        """Whether the wide columns are shown."""
        return self._wide

    @property
    def window(self) -> tuple[int, int]:
        """First row and number of rows that are wanted now."""
        return self._wanted()

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Other columns; the rows have to be given anew."""
        if tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self._rows, self._passed = [], 0
            self._changed()

    def set_total(self, total: int) -> None:
        """How many rows there are."""
        if total == self._total:
            return
        self._total = total
        self.virtual_size = Size(0, total + self._header)
        self._move_to(total - 1 if self.follow else min(self._cursor, total - 1))
        self._changed()
        self._ask()

    def set_rows(self, first: int, rows: Sequence[Sequence[Cell | str]]) -> None:
        """Rows of the table from `first` on; earlier ones are forgotten."""
        rows = list(rows)
        if first == self._first and rows == self._rows:
            return
        self._first, self._rows = first, rows
        self._changed()
        self._asked = None
        self._ask()

    def move_to(self, row: int) -> None:
        """Puts the cursor on a row."""
        self._move_to(row)

    def row(self, index: int) -> Sequence[Cell | str] | None:
        """A row, if it is held."""
        at = index - self._first
        return self._rows[at] if 0 <= at < len(self._rows) else None

    def action_move(self, by: int) -> None:
        """Moves the cursor."""
        self.follow = False
        self._move_to(self._cursor + by)

    def action_page(self, by: int) -> None:
        """Moves the cursor by a screenful."""
        self.action_move(by * max(1, self._body_height() - 1))

    def action_first(self) -> None:
        """To the first row."""
        self.follow = False
        self._move_to(0)

    def action_last(self) -> None:
        """To the last row."""
        self._move_to(self._total - 1)

    def action_choose(self) -> None:
        """Opens the row of the cursor."""
        if self._total:
            self.post_message(self.RowSelected(self, self._cursor))

    def action_wide(self) -> None:
        """Shows or hides the wide columns."""
        self._wide, self._passed = not self._wide, 0
        self._changed()

    def action_column(self, by: int) -> None:
        """Passes over columns behind the first, until the last is in sight, or goes back."""
        self._passed = max(0, min(self._passed + by, self._most_passed()))
        self._changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without more columns than there are in sight, these keys are for others."""
        if action == "column":
            return self._most_passed() > 0
        if action == "wide":
            return any(column.wide for column in self._columns)
        return super().check_action(action, parameters)

    def on_click(self, event: events.Click) -> None:
        """Puts the cursor on the row clicked; a second click on it opens it."""
        line = event.y - self._header
        row = line + self.scroll_offset.y
        if line < 0 or not 0 <= row < self._total:
            return
        if row == self._cursor:
            self.action_choose()
        else:
            self.follow = False
            self._move_to(row)

    def on_resize(self, _: events.Resize) -> None:
        """More rows may be in sight, and the cursor stays there."""
        self._move_to(self._cursor)
        self._ask()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other rows are in sight."""
        super().watch_scroll_y(old_value, new_value)
        self._ask()

    def render_line(self, y: int) -> Strip:
        """One line: the header, or the row in sight there."""
        width = self.size.width
        if self._header and y == 0:
            return self._header_strip(width)
        index = y - self._header + self.scroll_offset.y
        if not 0 <= index < self._total:
            return Strip.blank(width, Style())
        chosen = index == self._cursor
        key = (index, chosen and self.has_focus, self.scrollable_content_region.width)
        strip = self._drawn.get(key)
        if strip is None:
            strip = self._row_strip(index, width, chosen=chosen)
            self._drawn[key] = strip
        return strip

    def _header_strip(self, width: int) -> Strip:
        titles = [_fitted(column.title, column) for _, column in self._in_sight()]
        parts = ["< " if self._passed else "  ", *titles]
        return Strip([Segment(set_cell_size("".join(parts), width), self._palette.dim)], width)

    def _row_strip(self, index: int, width: int, *, chosen: bool) -> Strip:
        row = self.row(index)
        base = self._palette.bold if chosen else Style()
        if chosen and self.has_focus:
            base = self._palette.reverse
        lead = "> " if chosen else "  "
        if row is None:
            return Strip([Segment(set_cell_size(lead + self._palette.mark("ellipsis"), width), base)], width)
        if len(row) == 1 and len(self._columns) > 1:
            whole = row[0] if isinstance(row[0], str) else row[0].text
            whole = shortened(lead + terminal_safe(whole), width)
            return Strip([Segment(set_cell_size(whole, width), base)], width)
        parts = [Segment(lead, base)]
        for column, cell in ((column, row[at]) for at, column in self._in_sight() if at < len(row)):
            cell = Cell(cell) if isinstance(cell, str) else cell
            style = base
            if cell.state is not None and not (chosen and self.has_focus):
                style = self._palette.style(cell.state) + base
            elif cell.dim:
                style = self._palette.dim + base
            parts.append(Segment(_fitted(cell.text, column), style))
        return Strip(parts).adjust_cell_length(width, base)

    def _in_sight(self) -> list[tuple[int, Column]]:
        """Places and columns that are drawn: the first, and those that were not passed over as far as there is room.

        Of a text its beginning is of use; of a number it would be another number.
        """
        shown = [(at, column) for at, column in enumerate(self._columns) if self._wide or not column.wide]
        found: list[tuple[int, Column]] = []
        room = self.scrollable_content_region.width - 2
        for at, column in [*shown[:1], *shown[1 + self._passed :]]:
            if column.width <= room:
                found.append((at, column))
            elif not column.right and room >= LEAST:
                found.append((at, column._replace(width=room)))
            else:
                break
            room -= column.width + 1
        return found

    def _most_passed(self) -> int:
        """Columns to pass over before the last is in sight."""
        first, *others = [column.width + 1 for column in self._columns if self._wide or not column.wide] or [0]
        room, passed = self.scrollable_content_region.width - 2 - first, 0
        while passed < len(others) - 1 and sum(others[passed:]) - 1 > room:
            passed += 1
        return passed

    def _body_height(self) -> int:
        return max(0, self.size.height - self._header)

    def _move_to(self, row: int) -> None:
        row = max(0, min(row, self._total - 1))
        height = self._body_height()
        top = self.scroll_offset.y
        if height:
            wanted = min(max(top, row - height + 1), row)
            if wanted != top:
                # Forced: before the next layout there is no scroll bar yet, and without one nothing would move.
                self.scroll_to(y=wanted, animate=False, immediate=True, force=True)
        if row == self._cursor:
            return
        before, self._cursor = self._cursor, row
        for index in (before, row):
            self._row_changed(index)
        self.post_message(self.RowHighlighted(self, row))

    def _wanted(self) -> tuple[int, int]:
        height = max(1, self._body_height())
        first = max(0, self.scroll_offset.y - MARGIN * height)
        return first, min(self._total, self.scroll_offset.y + (MARGIN + 1) * height) - first

    def _ask(self) -> None:
        """Asks for the window around what is in sight, once, when some of what is in sight is not held."""
        height = self._body_height()
        top = self.scroll_offset.y
        end = min(self._total, top + height)
        if top >= self._first and end <= self._first + len(self._rows):
            return
        wanted = self._wanted()
        if wanted[1] > 0 and wanted != self._asked:
            self._asked = wanted
            self.post_message(self.WindowWanted(self, *wanted))

    def _changed(self) -> None:
        self._drawn.clear()
        self.refresh()

    def _row_changed(self, index: int) -> None:
        """One row is drawn otherwise: a key is answered sooner when only that is drawn."""
        self._drawn = {key: strip for key, strip in self._drawn.items() if key[0] != index}
        self.refresh_line(index + self._header)


def _fitted(text: str, column: Column) -> str:
    """A text in its column, with a space after it; what is too long is cut and says so."""
    text = shortened(terminal_safe(text), column.width)
    blank = " " * (column.width - cell_len(text))
    return f"{blank}{text} " if column.right else f"{text}{blank} "
