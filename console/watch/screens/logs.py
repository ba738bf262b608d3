"""The Logs screen: everything that happened, followed or searched, with the whole of the chosen line below."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Literal, cast

from rich.style import Style
from textual.binding import BindingType
from textual.widget import Widget

from collector.terminal_text import terminal_safe
from console.watch.frame.head import ago
from console.watch.frame.keys import guarded
from console.watch.frame.reflow import Form
from console.watch.frame.row import Part
from console.watch.frame.watch_screen import WatchScreen
from console.watch.plain.beginning import beginning
from console.watch.plain.logs import LETTERS, place
from console.watch.plain.table_lines import in_cells
from console.watch.topic import View
from console.watch.views.logs import FIELDS, Jump, LogLine, LogsAsk, LogsView
from console.watch.widgets.palette import State
from console.watch.widgets.table import Cell, Column, WindowedTable
from console.watch.widgets.text_rows import TextRows

STATES: dict[str, State | None] = {"info": None, "warn": "warning", "fail": "critical"}
TIMES = ("clock", "date", "age")


class LogsScreen(WatchScreen):
    """A table of lines and the text of one."""

    TOPIC: ClassVar[str] = "logs"
    TITLE: ClassVar[str] = "Logs"  # pyright: ignore[reportIncompatibleVariableOverride]
    HINTS: ClassVar[tuple[str, ...]] = (
        "open",
        "list.follow",
        "frame.filter",
        "list.faults",
        "search.next",
        "logs.minute_on",
        "logs.times",
        "time.signals",
        "frame.copy",
        "frame.export",
    )
    FIELDS: ClassVar = FIELDS
    ROWS_BY: ClassVar[tuple[str, ...]] = ("adapter", "filter", "faults")
    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("list.follow", "follow"),
        guarded("list.faults", "faults"),
        guarded("search.next", "jump('fault', 1)"),
        guarded("search.previous", "jump('fault', -1)"),
        guarded("logs.minute_on", "jump('minute', 1)"),
        guarded("logs.minute_back", "jump('minute', -1)"),
        guarded("logs.times", "times"),
        guarded("list.wide", "wrapped"),
    ]
    DEFAULT_CSS = """
    LogsScreen #line_text { height: 5; border-top: solid ansi_bright_black; }
    LogsScreen.-small #line_text { display: none; }
    LogsScreen.-wrapped #line_text { display: block; height: 50%; }
    """

    def __init__(self, filter: str = "") -> None:
        super().__init__()
        self.filter_text = filter
        self._faults = False
        self._times = 0
        self._window: tuple[int, int] | None = None
        self._jump: Jump | None = None
        self._settled = False

    def compose_body(self) -> Iterable[Widget]:
        """The table, and the chosen line below it."""
        table = WindowedTable(self._columns(), self.palette, id="lines")
        table.follow = True
        yield table
        yield TextRows(id="line_text")

    def ask(self) -> LogsAsk:
        """The newest lines while it follows, else the window in sight."""
        first, count = self._window or (None, 150)
        return LogsAsk(
            adapter=self.frame.adapter,
            filter=self.filter_text,
            faults=self._faults,
            first=None if self._follows and self._jump is None else first,
            count=count,
            jump=self._jump,
        )

    def wants(self, ask: object) -> bool:
        """Any window of the same lines is of use."""
        own = self.ask()
        return isinstance(ask, LogsAsk) and (ask.filter, ask.faults, ask.adapter) == (
            own.filter,
            own.faults,
            own.adapter,
        )

    def show(self, view: View) -> None:
        """Draws the window."""
        view = cast(LogsView, view)
        table = self._table
        table.set_total(view.total)
        table.set_rows(view.first, [self._cells(line) for line in view.rows])
        if not self._settled:
            # Before the first layout the table could not be scrolled to its end.
            self.call_after_refresh(self._settle)
        if self._jump is not None:
            if view.jumped is None:
                what = "fault" if self._jump.to == "fault" else "line a minute"
                self.say(f"no {what} {'on' if self._jump.by > 0 else 'back'}")
            else:
                table.follow = False
                table.move_to(view.jumped)
            self._jump = None
        self._show_line()

    def sentence(self, view: View) -> str:
        """How much there is, and whether the newest is in view."""
        view = cast(LogsView, view)
        below = view.total - 1 - self._table.cursor
        new = "" if self._follows or below <= 0 else f"  {self.palette.mark('down')} {below} newer (f follows)"
        of_part = "" if view.newest_turns is None else "newest part: "
        only = " faults only" if self._faults else ""
        shown = f"{view.total} of {view.lines} lines" if view.total != view.lines else f"{view.lines} lines"
        filtered = f"/{self.filter_text}: " if self.filter_text else ""
        return f"{filtered}{of_part}{shown}  {view.warns} warn  {view.fails} fail{only}{new}"

    def copied(self) -> str:
        """The chosen line, whole."""
        line = self._line()
        return "" if line is None else f"{self._when(line, 'date')} {LETTERS[line.level]} {place(line)}{line.text}"

    def copies(self) -> Sequence[tuple[str, str]]:
        """The line, its text, its session, or all lines in sight."""
        line = self._line()
        if line is None:
            return []
        session = [("session id", line.session_id)] if line.session_id else []
        return [("line", self.copied()), ("text", line.text), *session]

    def exported(self, view: View) -> Sequence[object]:
        """The lines of the window."""
        return cast(LogsView, view).rows

    def at(self) -> datetime | None:
        """The time of the chosen line."""
        line = self._line()
        return None if line is None else line.at

    def off(self, key: str) -> str | None:
        """Lines that are about no session open nothing."""
        if key == "open" and ((line := self._line()) is None or line.session_id is None):
            return "this line is about no session"
        return super().off(key)

    def resized(self, form: Form) -> None:  # noqa: ARG002
        """Less about each line where there is less room; the cursor stays in view."""
        self._settled = False
        self._redraw_rows()

    def filtered(self, text: str) -> None:
        """The newest of other lines."""
        self._table.follow, self._window = True, None
        super().filtered(text)

    def on_windowed_table_window_wanted(self, event: WindowedTable.WindowWanted) -> None:
        """Other lines are in sight; it goes on following while the newest are among those around."""
        first, count = self._table.window
        newest = self.view is None or first + count >= cast(LogsView, self.view).total
        self._table.follow = self._table.follow and (newest or not self._settled)
        self._window = (event.first, event.count)
        self.asked()

    def on_windowed_table_row_highlighted(self) -> None:
        """Another line is chosen."""
        self._show_line()
        self.redraw_frame()

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """Opens the session it is about."""
        event.stop()
        line = self._line()
        if reason := self.off("open"):
            self.say(f"open is off: {reason}")
        elif line is not None and line.turn is not None:
            self.open("token", session_id=line.session_id, turn=line.turn)
        elif line is not None:
            self.open("turn", session_id=line.session_id)

    def action_follow(self) -> None:
        """Keeps the newest line in view, or lets it go."""
        self._table.follow = not self._table.follow
        if self._table.follow:
            self._window = None
            self._table.action_last()
            self.asked()
        self.redraw_frame()

    def action_faults(self) -> None:
        """Only lines that warn or fail, or all."""
        self._faults = not self._faults
        self._table.follow, self._window = True, None
        self.asked()

    def action_jump(self, to: Literal["fault", "minute"], by: Literal[-1, 1]) -> None:
        """To the next fault or minute."""
        self._jump = Jump(to=to, row=self._table.cursor, by=by)
        self.asked()

    def action_times(self) -> None:
        """Times of the day, dates, or ages."""
        self._times = (self._times + 1) % len(TIMES)
        self._redraw_rows()

    def action_wrapped(self) -> None:
        """Half the screen for the whole of the chosen line, wrapped; or as before."""
        self.toggle_class("-wrapped")
        self._settled = False
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        self._settled = self._table.size.height > 0
        self._table.move_to(self._table.cursor)

    def _redraw_rows(self) -> None:
        self._table.set_columns(self._columns())
        if self.view is not None:
            self.show(self.view)

    @property
    def _table(self) -> WindowedTable:
        return self.query_one("#lines", WindowedTable)

    @property
    def _follows(self) -> bool:
        return not self.query("#lines") or self._table.follow

    def _columns(self) -> list[Column]:
        width = self.app.size.width
        time = Column(
            "at", "time", {"clock": 8, "date": 19, "age": 6}[TIMES[self._times]], right=TIMES[self._times] == "age"
        )
        fixed = [time, Column("level", "", 1), Column("source", "source", 11 if width >= 120 else 9)]
        about = [Column("about", "about", 24)] if width >= 120 else []
        rest = width - sum(column.width + 1 for column in [*fixed, *about]) - 3
        return [*fixed, *about, Column("text", "text", max(10, rest))]

    def _cells(self, line: LogLine) -> list[Cell]:
        state = STATES[line.level]
        about = place(line).removeprefix(f"{terminal_safe(line.source)}").strip(" :")
        cells = [
            Cell(self._when(line, TIMES[self._times]), dim=True),
            Cell(LETTERS[line.level], state),
            Cell(terminal_safe(line.source)),
        ]
        if self.app.size.width >= 120:
            cells.append(Cell(about))
        return [*cells, Cell(terminal_safe(beginning(line.text)), state)]

    def _when(self, line: LogLine, form: str) -> str:
        if line.at is None:
            return self.palette.mark("missing")
        if form == "age":
            now = self.frame.facts().status.at
            return "" if now is None else ago(line.at, now)
        return f"{line.at:%Y-%m-%d %H:%M:%S}" if form == "date" else f"{line.at:%H:%M:%S}"

    def _line(self) -> LogLine | None:
        view = cast("LogsView | None", self.view)
        if view is None or not self.query("#lines"):
            return None
        row = self._table.cursor - view.first
        return view.rows[row] if 0 <= row < len(view.rows) else None

    def _show_line(self) -> None:
        line = self._line()
        if line is None:
            self.query_one("#line_text", TextRows).set([])
            return
        head = f" {self._when(line, 'date')}Z {line.level} {place(line)}{terminal_safe(line.kind)}"
        text = terminal_safe(beginning(line.text))
        width = max(10, self.size.width - 4)
        pieces = in_cells(text, width)
        self.query_one("#line_text", TextRows).set(
            [[Part(head, self.palette.bold)], *([Part(f"  {piece}", Style())] for piece in pieces)]
        )
