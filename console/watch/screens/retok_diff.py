"""The retokenization diff: which ids of a completion come back as others once it was text."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, cast

from textual.binding import BindingType
from textual.widget import Widget

from console.watch.frame.keys import guarded
from console.watch.frame.list_screen import ListScreen
from console.watch.frame.row import Part
from console.watch.screens.drill_crumb import crumb_of
from console.watch.screens.next_turn import next_turn
from console.watch.topic import View
from console.watch.views.diff_words import SPAN_TITLES, retok_words, span_cells
from console.watch.views.retok_diff import RetokDiffAsk, RetokDiffView, SpanRow
from console.watch.widgets.table import Cell, Column, WindowedTable
from console.watch.widgets.text_rows import TextRows

_KEYS = ("span", "recorded", "recorded_text", "encoded", "encoded_text", "same", "difference")


class RetokDiffScreen(ListScreen):
    """A row for each span; the chosen one in full below."""

    TOPIC: ClassVar[str] = "retok_diff"
    TITLE: ClassVar[str] = "Retok diff"  # pyright: ignore[reportIncompatibleVariableOverride]
    HINTS: ClassVar[tuple[str, ...]] = (
        "open",
        "search.next",
        "time.next",
        "token.prefix_diff",
        "frame.copy",
        "frame.export",
    )
    ROWS_BY: ClassVar[tuple[str, ...]] = ("session_id", "turn")
    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("search.next", "changed(1)"),
        guarded("search.previous", "changed(-1)"),
        guarded("token.prefix_diff", "prefix"),
    ]
    DEFAULT_CSS = """
    RetokDiffScreen #span { height: 5; border-top: solid; }
    RetokDiffScreen.-small #span { display: none; }
    """

    def __init__(self, session_id: str, turn: int) -> None:
        super().__init__()
        self._session = session_id
        self._turn: int = turn

    def compose_body(self) -> Iterable[Widget]:
        """The spans, and the chosen one."""
        yield WindowedTable(self._columns(), self.palette, id="spans")
        yield TextRows(id="span")

    def ask(self) -> RetokDiffAsk:
        """The window in sight."""
        first, count = self._window
        return RetokDiffAsk(
            selected=(self._session, str(self._turn)),
            session_id=self._session,
            turn=self._turn,
            first=first,
            count=count,
        )

    def show(self, view: View) -> None:
        """Draws the window."""
        view = cast(RetokDiffView, view)
        table = self._table
        table.set_columns(self._columns())
        table.set_total(view.total)
        table.set_rows(view.first, [self._cells(row) for row in view.rows])
        self._show_span()

    def sentence(self, view: View) -> str:
        """How much comes back as it was."""
        return self.palette.said(retok_words(cast(RetokDiffView, view)))

    def crumb(self) -> str:
        """The turn."""
        return crumb_of(self, self._session, self._turn, "retok")

    def copied(self) -> str:
        """The chosen span."""
        row = self._row()
        return "" if row is None else "\t".join(span_cells(row))

    def exported(self, view: View) -> Sequence[object]:
        """The spans of the window."""
        return cast(RetokDiffView, view).rows

    def off(self, key: str) -> str | None:
        """Without a change there is none to go to."""
        if key in ("search.next", "search.previous") and self._view is not None and not self._view.changed:
            return self._view.why_not or "every completion of this session comes back the same"
        if key == "open" and self._row() is None:
            return "there is no span"
        return super().off(key)

    def stepped(self, by: int) -> bool:
        """To another turn of the session."""
        turns = () if self._view is None else self._view.turns
        self._go(next_turn(self, turns, self._turn, by))
        return True

    def on_windowed_table_row_highlighted(self, event: WindowedTable.RowHighlighted) -> None:
        """Another span is chosen."""
        event.stop()
        self._show_span()

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """Opens the tokens at the span."""
        event.stop()
        row = self._row()
        if row is not None:
            self.open("token", session_id=self._session, turn=self._turn, token_index=row.start, side="completion")

    def action_changed(self, by: int) -> None:
        """To the next turn whose completion changes."""
        changed = () if self._view is None else self._view.changed
        further = [each for each in changed if (each - self._turn) * by > 0]
        if further:
            self._go((min if by > 0 else max)(further))
        else:
            self.say(f"no {'later' if by > 0 else 'earlier'} turn of this session changes")

    def action_prefix(self) -> None:
        """The other difference."""
        self.open("prefix_diff", session_id=self._session, turn=self._turn)

    @property
    def _table(self) -> WindowedTable:
        return self.query_one("#spans", WindowedTable)

    @property
    def _view(self) -> RetokDiffView | None:
        return cast("RetokDiffView | None", self.view)

    def _go(self, turn: int) -> None:
        if turn != self._turn:
            self._turn, self._window = turn, (0, self._window[1])
            self._table.action_first()
            self.asked()

    def _row(self) -> SpanRow | None:
        view = self._view
        if view is None or not self.query("#spans"):
            return None
        at = self._table.cursor - view.first
        return view.rows[at] if 0 <= at < len(view.rows) else None

    def _columns(self) -> list[Column]:
        rest = self.app.size.width - 3 - (12 + 10 + 5 + 3)
        ids, text = max(8, rest // 4 - 1), max(8, rest // 4 - 1)
        widths = (11, ids, text, ids, text, 10, 4)
        return [
            Column(key, self.palette.said(title), width)
            for key, title, width in zip(_KEYS, SPAN_TITLES, widths, strict=True)
        ]

    def _cells(self, row: SpanRow) -> list[Cell]:
        cells = span_cells(row)
        said = [
            text if key.endswith("text") else self.palette.said(text) for key, text in zip(_KEYS, cells, strict=True)
        ]
        return [
            Cell(text, "warning" if key == "same" and not row.same_text else None)
            for key, text in zip(_KEYS, said, strict=True)
        ]

    def _show_span(self) -> None:
        row = self._row()
        if row is None:
            view = self._view
            text = "" if view is None else view.why_not or "nothing changes"
            self.query_one("#span", TextRows).set([[Part(f" {text}", self.palette.dim)]])
            return
        cells = span_cells(row)
        self.query_one("#span", TextRows).set(
            [
                [Part(f" completion ids {self.palette.said(cells[0])}   same text: {self.palette.said(cells[5])}")],
                [Part(f" - recorded    {cells[1]}  {cells[2]}")],
                [Part(f" + re-encoded  {cells[3]}  {cells[4]}")],
            ]
        )
