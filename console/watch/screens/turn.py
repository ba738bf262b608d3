"""The Turns screen: a session's turns as a tree, and the messages of the chosen one."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, cast

from rich.cells import chop_cells
from textual.binding import BindingType
from textual.widget import Widget

from collector.terminal_text import terminal_safe
from console.watch.frame.keys import guarded
from console.watch.frame.list_screen import ListScreen
from console.watch.frame.row import Part, Row
from console.watch.topic import View
from console.watch.views.trajectory_words import tail_of
from console.watch.views.turn import FIELDS, TurnAsk, TurnRow, TurnsView
from console.watch.views.turn_words import COLUMNS, message_lines, session_words
from console.watch.widgets.table import Cell, Column, WindowedTable
from console.watch.widgets.text_rows import TextRows


class TurnScreen(ListScreen):
    """A table of turns above what was said."""

    TOPIC: ClassVar[str] = "turn"
    TITLE: ClassVar[str] = "Turns"  # pyright: ignore[reportIncompatibleVariableOverride]
    HINTS: ClassVar[tuple[str, ...]] = (
        "open",
        "time.next",
        "search.next",
        "token.prefix_diff",
        "token.retok_diff",
        "list.wide",
        "time.signals",
        "frame.copy",
        "frame.export",
    )
    FIELDS: ClassVar = FIELDS
    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("list.follow", "follow"),
        guarded("search.next", "broken(1)"),
        guarded("search.previous", "broken(-1)"),
        guarded("token.prefix_diff", "diff('prefix_diff')"),
        guarded("token.retok_diff", "diff('retok_diff')"),
    ]
    DEFAULT_CSS = """
    TurnScreen #turns { height: 1fr; }
    TurnScreen #said { height: 1fr; }
    TurnScreen.-normal #said { height: 6; }
    TurnScreen.-small #said, TurnScreen.-small #said_rule { display: none; }
    """

    def __init__(self, session_id: str, turn: int | None = None) -> None:
        super().__init__()
        self._session = session_id
        self._turn = turn
        self._placed = False

    def compose_body(self) -> Iterable[Widget]:
        """The turns, and the messages."""
        yield WindowedTable(self._columns(), self.palette, id="turns")
        yield Row(id="said_rule")
        yield TextRows(id="said")

    def ask(self) -> TurnAsk:
        """The window in sight, and the chosen turn's messages."""
        first, count = self._window
        return TurnAsk(
            selected=(self._session,),
            session_id=self._session,
            turn=self._turn,
            filter=self.filter_text,
            first=first,
            count=count,
        )

    def show(self, view: View) -> None:
        """Draws the window."""
        view = cast(TurnsView, view)
        table = self._table
        table.set_columns(self._columns())
        table.set_total(view.total)
        table.set_rows(view.first, [[self._cell(each.key, row) for each in COLUMNS] for row in view.rows])
        if not self._placed and view.found:
            self._placed, self._turn = True, view.selected
            table.move_to(view.selected_row)
        self._say(view)

    def sentence(self, view: View) -> str:
        """The session in one sentence."""
        view = cast(TurnsView, view)
        filtered = f"/{self.filter_text}: {view.total} of {view.turns}  " if self.filter_text else ""
        return filtered + self.palette.said(session_words(view))

    def crumb(self) -> str:
        """The session."""
        return self.palette.said(tail_of(terminal_safe(self._session), 24))

    def copied(self) -> str:
        """The chosen turn's id, else where it is."""
        row = self._row()
        return "" if row is None else row.turn_id or f"{self._session} turn {row.turn}"

    def copies(self) -> Sequence[tuple[str, str]]:
        """The id, the row, the messages."""
        row, view = self._row(), self._view
        if row is None or view is None:
            return []
        said = "\n".join(f"{role} {text}".strip() for role, text in message_lines(view))
        cells = "\t".join(each.cell(row).strip() for each in COLUMNS)
        return [("turn id", self.copied()), ("row", cells), ("messages", said), ("session id", self._session)]

    def exported(self, view: View) -> Sequence[object]:
        """The turns of the window."""
        return cast(TurnsView, view).rows

    def at(self) -> datetime | None:
        """When the chosen turn began."""
        row = self._row()
        return None if row is None else row.started_at

    def off(self, key: str) -> str | None:
        """Without a break there is none to go to."""
        if key in ("search.next", "search.previous") and self._view is not None and not self._view.broken:
            return "no turn of this session is known to break"
        return super().off(key)

    def stepped(self, by: int) -> bool:
        """To another turn."""
        self._table.action_move(by)
        return True

    def on_windowed_table_row_highlighted(self, event: WindowedTable.RowHighlighted) -> None:
        """Another turn is chosen."""
        event.stop()
        row = self._row()
        if row is not None and row.turn != self._turn:
            self._turn = row.turn
            self.asked()
            self.redraw_frame()

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """Opens its tokens."""
        event.stop()
        row = self._row()
        if row is not None:
            self.open("token", session_id=self._session, turn=row.turn)

    def action_broken(self, by: int) -> None:
        """To the next turn that breaks."""
        view = self._view
        places = [view.first + at for at, row in enumerate(view.rows) if row.prefix == "break"] if view else []
        if not self.go_on(self._table, places, by):
            self.say(f"no turn breaks {'further down' if by > 0 else 'further up'}")

    def action_follow(self) -> None:
        """Keeps the newest turn in view, or lets it go."""
        self._table.follow = not self._table.follow
        self.say("the newest turn stays in view" if self._table.follow else "the cursor stays where it is")
        if self._table.follow:
            self._table.action_last()

    def action_diff(self, topic: str) -> None:
        """One of the differences of the chosen turn."""
        row = self._row()
        if row is not None:
            self.open(topic, session_id=self._session, turn=row.turn)

    @property
    def _table(self) -> WindowedTable:
        return self.query_one("#turns", WindowedTable)

    @property
    def _view(self) -> TurnsView | None:
        return cast("TurnsView | None", self.view)

    def _row(self) -> TurnRow | None:
        view = self._view
        if view is None or not self.query("#turns"):
            return None
        at = self._table.cursor - view.first
        return view.rows[at] if 0 <= at < len(view.rows) else None

    def _columns(self) -> list[Column]:
        wide = self.app.size.width >= 120
        return [
            Column(each.key, each.title, each.width, right=each.right, wide=each.wide and not wide) for each in COLUMNS
        ]

    def _cell(self, key: str, row: TurnRow) -> Cell:
        column = next(each for each in COLUMNS if each.key == key)
        text = terminal_safe(column.cell(row))
        text = text if key in ("served", "trainable") else self.palette.said(text)
        broken = key == "link" and row.prefix == "break"
        return Cell(text, "warning" if broken or (key == "worst" and row.outliers) else None)

    def _say(self, view: TurnsView) -> None:
        of_turn = "" if view.selected is None else f" of turn {view.selected}"
        rule = f"─ messages{of_turn} {'─' * self.size.width}"
        self.query_one("#said_rule", Row).set([Part(self.palette.said(rule), self.palette.dim)])
        width = max(20, self.size.width - 20)
        rows: list[list[Part]] = []
        for role, text in message_lines(view):
            for at, line in enumerate(chop_cells(text, width) or [""]):
                rows.append([Part(f" {role if at == 0 else '':<16} ", self.palette.bold), Part(line)])
        self.query_one("#said", TextRows).set(rows or [[Part(" the log holds no messages of it", self.palette.dim)]])
