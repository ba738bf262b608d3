"""The Trajectories screen: every session, filtered and sorted."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, cast

from textual.binding import BindingType
from textual.widget import Widget

from collector.terminal_text import terminal_safe
from console.watch.frame.keys import guarded
from console.watch.frame.list_screen import ListScreen
from console.watch.topic import Ask, View
from console.watch.views.trajectories import FIELDS, SORTS, TrajectoriesView, TrajectoryRow
from console.watch.views.trajectory_words import COLUMNS, list_words, tail_of
from console.watch.widgets.palette import State
from console.watch.widgets.table import Cell, Column, WindowedTable

FAULTS = "breaks>0"
"""What `F` adds to the filter."""


class TrajectoriesScreen(ListScreen):
    """A table of sessions; the cursor stays on its session while others come."""

    TOPIC: ClassVar[str] = "trajectories"
    TITLE: ClassVar[str] = "Trajectories"  # pyright: ignore[reportIncompatibleVariableOverride]
    HINTS: ClassVar[tuple[str, ...]] = (
        "open",
        "frame.filter",
        "list.sort",
        "list.order",
        "list.faults",
        "list.wide",
        "search.next",
        "time.signals",
        "frame.copy",
        "frame.export",
    )
    FIELDS: ClassVar = FIELDS
    ROWS_BY: ClassVar[tuple[str, ...]] = ("adapter", "filter", "sort", "descending")
    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("list.sort", "sort"),
        guarded("list.order", "order"),
        guarded("list.follow", "follow"),
        guarded("list.faults", "faults"),
        guarded("search.next", "broken(1)"),
        guarded("search.previous", "broken(-1)"),
    ]

    def __init__(self, filter: str = "") -> None:
        super().__init__(count=100)
        self.filter_text = filter
        self._sort = 0
        self._descending = True
        self._faults = False
        self._session: str | None = None

    def compose_body(self) -> Iterable[Widget]:
        """The table."""
        yield WindowedTable(self._columns(), self.palette, id="sessions")

    def ask(self) -> Ask:
        """The window in sight."""
        return Ask(
            adapter=self.frame.adapter,
            filter=f"{self.filter_text} {FAULTS}".strip() if self._faults else self.filter_text,
            sort=SORTS[self._sort],
            descending=self._descending,
            first=self._window[0],
            count=self._window[1],
        )

    def show(self, view: View) -> None:
        """Draws the window."""
        view = cast(TrajectoriesView, view)
        table = self._table
        table.set_columns(self._columns())
        table.set_total(view.total)
        table.set_rows(view.first, [[self._cell(key, row) for key in self._keys()] for row in view.rows])
        place = next((at for at, row in enumerate(view.rows) if row.session_id == self._session), None)
        if place is not None and table.cursor:
            table.move_to(view.first + place)
        self._remember()

    def keep_place(self) -> None:
        """The session."""
        self._remember()

    def sentence(self, view: View) -> str:
        """How many, and in what order."""
        filtered = f"/{self.filter_text}: " if self.filter_text else ""
        only = "only those with a break: " if self._faults else ""
        return filtered + only + self.palette.said(list_words(cast(TrajectoriesView, view)))

    def copied(self) -> str:
        """The session's id."""
        row = self._row()
        return "" if row is None else row.session_id

    def copies(self) -> Sequence[tuple[str, str]]:
        """The id, or the row."""
        row = self._row()
        if row is None:
            return []
        return [("session id", row.session_id), ("row", "\t".join(each.cell(row) for each in COLUMNS))]

    def exported(self, view: View) -> Sequence[object]:
        """The sessions of the window."""
        return cast(TrajectoriesView, view).rows

    def at(self) -> datetime | None:
        """When the session's last turn ended."""
        row = self._row()
        return None if row is None else row.last_at

    def filtered(self, text: str) -> None:
        """From the first of other sessions."""
        self._first()
        super().filtered(text)

    def on_windowed_table_row_highlighted(self, event: WindowedTable.RowHighlighted) -> None:
        """Another session is chosen."""
        event.stop()
        self._remember()
        self.redraw_frame()

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """Opens its turns."""
        event.stop()
        row = self._row()
        if row is not None:
            self.open("turn", session_id=row.session_id)

    def action_sort(self) -> None:
        """By the next column."""
        self._sort = (self._sort + 1) % len(SORTS)
        self._descending = SORTS[self._sort] != "session_id"
        self._first()
        self.asked()

    def action_order(self) -> None:
        """The other way round."""
        self._descending = not self._descending
        self._first()
        self.asked()

    def action_follow(self) -> None:
        """The newest first, and the cursor on it, where it stays."""
        self._sort, self._descending = 0, True
        self._first()
        self.asked()

    def action_faults(self) -> None:
        """Only sessions with a break, or all."""
        self._faults = not self._faults
        self._first()
        self.asked()

    def action_broken(self, by: int) -> None:
        """To the next session with a break among those in the window."""
        view = cast("TrajectoriesView | None", self.view)
        if view is None:
            return
        if not self.go_on(self._table, [view.first + at for at, row in enumerate(view.rows) if row.breaks], by):
            self.say("no further session with a break in sight; F lists them alone")

    @property
    def _table(self) -> WindowedTable:
        return self.query_one("#sessions", WindowedTable)

    def _first(self) -> None:
        self._window, self._session = (0, self._window[1]), None
        if self.query("#sessions"):
            self._table.action_first()

    def _row(self) -> TrajectoryRow | None:
        view = cast("TrajectoriesView | None", self.view)
        if view is None or not self.query("#sessions"):
            return None
        at = self._table.cursor - view.first
        return view.rows[at] if 0 <= at < len(view.rows) else None

    def _remember(self) -> None:
        row = self._row()
        self._session = None if row is None else row.session_id

    def _keys(self) -> list[str]:
        return [each.key for each in COLUMNS]

    def _columns(self) -> list[Column]:
        """All of them at full width; what is left of the room goes to the session's name."""
        wide = self.app.size.width >= 120
        shown = [each for each in COLUMNS if wide or not each.wide]
        rest = self.app.size.width - 3 - sum(each.width + 1 for each in shown)
        return [
            Column(
                each.key,
                each.title,
                each.width + max(0, min(24, rest)) if each.key == "session_id" else each.width,
                right=each.right,
                wide=each.wide and not wide,
            )
            for each in COLUMNS
        ]

    def _cell(self, key: str, row: TrajectoryRow) -> Cell:
        column = next(each for each in COLUMNS if each.key == key)
        text = terminal_safe(column.cell(row))
        if key == "session_id":
            text = tail_of(text, self._columns()[0].width)
        own = key in ("session_id", "tenant", "served")
        return Cell(text if own and key != "session_id" else self.palette.said(text), self._state(key, row))

    def _state(self, key: str, row: TrajectoryRow) -> State | None:
        if key == "breaks" and row.breaks:
            return "warning"
        if key == "retok" and row.retok:
            return "warning"
        if key == "worst_w" and row.worst_w is not None and not 0.5 <= row.worst_w <= 2.0:
            return "warning"
        return None
