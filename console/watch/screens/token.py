"""The Token screen: a turn's tokens as a chart, as text and as a table; what one was taught, and why its weight is."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, cast

from textual.binding import BindingType
from textual.widget import Widget

from checks.token_context import Side
from collector.errors import UserError
from console.watch.frame.keys import guarded
from console.watch.frame.reflow import Form
from console.watch.frame.row import Part, Row
from console.watch.frame.typing_row import TypingRow
from console.watch.frame.watch_screen import WatchScreen
from console.watch.screens.drill_crumb import crumb_of
from console.watch.screens.next_turn import next_turn
from console.watch.screens.token_look import TokenLook
from console.watch.topic import View
from console.watch.views.credit_words import credit_lines, is_bare
from console.watch.views.token import WINDOW, TokenAsk, TokenRow, TokenView, side_of
from console.watch.views.token_words import columns_for, no_token, token_text, turn_words, typed_position, why_lines
from console.watch.widgets.position_chart import PositionChart, chart_columns
from console.watch.widgets.table import Column, WindowedTable
from console.watch.widgets.text_rows import TextRows
from console.watch.widgets.token_colour import MODES
from console.watch.widgets.tokens import TokenStrip

TALL = 48
"""Rows from which on what is said of a token has more of them."""
GOTO = "g"
"""Stands before the position that is typed."""


class TokenScreen(WatchScreen):
    """One cursor for the chart, the text and the table: the screen has the keys, whatever is focused."""

    TOPIC: ClassVar[str] = "token"
    TITLE: ClassVar[str] = "Token"  # pyright: ignore[reportIncompatibleVariableOverride]
    AUTO_FOCUS = ""
    HINTS: ClassVar[tuple[str, ...]] = (
        "move.left",
        "search.next",
        "token.goto",
        "time.next",
        "token.prefix_diff",
        "token.retok_diff",
        "token.colour",
        "token.ids",
        "token.scoring",
        "frame.copy",
        "frame.export",
    )
    ROWS_BY: ClassVar[tuple[str, ...]] = ("session_id", "turn", "scoring")
    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("move.left", "move(-1)"),
        guarded("move.right", "move(1)"),
        guarded("move.up", "line(-1)"),
        guarded("move.down", "line(1)"),
        guarded("move.page_up", "page(-1)"),
        guarded("move.page_down", "page(1)"),
        guarded("token.first", "to(0)"),
        guarded("move.last", "to(-1)"),
        guarded("search.next", "outlier(1)"),
        guarded("search.previous", "outlier(-1)"),
        guarded("token.goto", "goto"),
        guarded("token.scoring", "scoring"),
        guarded("token.colour", "colour"),
        guarded("token.ids", "ids"),
        guarded("token.prefix_diff", "diff('prefix_diff')"),
        guarded("token.retok_diff", "diff('retok_diff')"),
    ]
    DEFAULT_CSS = """
    TokenScreen #strip, TokenScreen #tokens, TokenScreen #credit, TokenScreen #why { scrollbar-size: 0 0; }
    TokenScreen #strip, TokenScreen #credit { height: 5; }
    TokenScreen #why { height: 4; }
    TokenScreen.-tall #credit { height: 9; }
    TokenScreen.-tall #why { height: 6; }
    TokenScreen.-bare #credit { height: 1; }
    TokenScreen.-bare #why { height: 6; }
    TokenScreen.-normal #chart { height: 4; }
    TokenScreen.-normal #chart_rule { display: none; }
    TokenScreen.-normal #strip { height: 2; }
    TokenScreen.-normal #credit { height: 3; }
    TokenScreen.-normal #why { height: 2; }
    TokenScreen.-normal.-bare #credit { height: 1; }
    TokenScreen.-normal.-bare #why { height: 3; }
    TokenScreen.-small #chart, TokenScreen.-small #chart_rule, TokenScreen.-small #strip,
    TokenScreen.-small #strip_rule, TokenScreen.-small #why_rule { display: none; }
    TokenScreen.-small #credit, TokenScreen.-small #why { height: 1; }
    """

    def __init__(
        self,
        session_id: str,
        turn: int,
        token_index: int | None = None,
        side: Side | None = None,
        check: str | None = None,
        step: int | None = None,
        because: str | None = None,
    ) -> None:
        super().__init__()
        self._because = because
        self._session = session_id
        self._turn: int = turn
        self._at: tuple[int | None, Side | None, str | None] = (token_index, side, check)
        self._step = step
        self._scoring: int | None = None
        self._first = -1
        self._cursor: int | None = None
        self._mode = 0
        self._ids = False

    def compose_body(self) -> Iterable[Widget]:
        """The five parts, each under its rule."""
        yield Row(id="chart_rule")
        yield PositionChart(self.palette, id="chart")
        yield Row(id="strip_rule")
        yield _still(TokenStrip(self.palette, id="strip"))
        yield Row(id="tokens_rule")
        yield _still(WindowedTable((), self.palette, id="tokens"))
        yield Row(id="credit_rule")
        yield TextRows(id="credit")
        yield Row(id="why_rule")
        yield TextRows(id="why")

    def ask(self) -> TokenAsk:
        """The turn, and the window around the cursor."""
        index, side, check = self._at
        return TokenAsk(
            selected=(self._session, str(self._turn)),
            session_id=self._session,
            turn=self._turn,
            token_index=index,
            side=side,
            check=check,
            step=self._step,
            scoring=self._scoring,
            first=self._first,
            count=WINDOW,
            columns=chart_columns(self.app.size.width, ascii_only=self.palette.ascii),
        )

    def show(self, view: View) -> None:
        """Draws the window; the cursor stays where it is, if it is somewhere."""
        view = cast(TokenView, view)
        if self._cursor is None or self._cursor >= view.total:
            self._cursor = view.cursor
            self._say_beyond(view)
        self._draw(view)
        # Before the first layout nothing can be scrolled to.
        self.call_after_refresh(self._place_again)

    def sentence(self, view: View) -> str:
        """The turn in one sentence."""
        return self.palette.said(turn_words(cast(TokenView, view), short=self.form != "full"))

    def crumb(self) -> str:
        """Session, turn and token."""
        token = "token" if self._cursor is None else f"token {self._cursor}"
        return crumb_of(self, self._session, self._turn, token)

    def grown(self) -> Widget | None:
        """The table, unless another pane is focused: the screen has the cursor."""
        return self.focused or self.query_one("#tokens")

    def copied(self) -> str:
        """The row of the cursor, its fields apart by tabs."""
        view, row = self._view, self._row
        if view is None or row is None:
            return ""
        return "\t".join(each.cell(row, view).strip() for each in columns_for(view, 200))

    def copies(self) -> Sequence[tuple[str, str]]:
        """The row, what it was taught, why, the token, or where it is."""
        view, row = self._view, self._row
        if view is None or row is None:
            return []
        why = "\n".join(why_lines(view, row.position))
        place = f"{view.session_id} turn {view.turn} " + (
            f"prompt token {row.position}" if row.index is None else f"completion token {row.index}"
        )
        taught = "\n".join(credit_lines(view, row.position, self._because))
        return [("row", self.copied()), ("credit", taught), ("why", why), ("token", token_text(row)), ("place", place)]

    def exported(self, view: View) -> Sequence[object]:
        """The tokens of the window."""
        return cast(TokenView, view).rows

    def at(self) -> datetime | None:
        """When the turn ended."""
        return None if self._view is None else self._view.at

    def off(self, key: str) -> str | None:
        """Keys that have nothing to go to."""
        view = self._view
        if key in ("search.next", "search.previous") and view is not None and not view.outliers:
            return "no token of this turn has w above 2 or below 1/2"
        if key == "token.scoring" and view is not None and len(view.scorings) < 2:
            return "the trainer scored this turn once" if view.scorings else "the trainer did not score this turn"
        return super().off(key)

    def stepped(self, by: int) -> bool:
        """To another turn of the session, at its worst token."""
        turns = () if self._view is None else self._view.turns
        number = next_turn(self, turns, self._turn, by)
        if number != self._turn:
            self._turn, self._at, self._cursor = number, (None, None, None), None
            self._because = self._step = None
            self._first, self._scoring = -1, None
            self.asked()
        return True

    def resized(self, form: Form) -> None:
        """More or fewer columns, and parts of the chart."""
        self.set_class(form == "full" and self.app.size.height >= TALL, "-tall")
        self.asked()
        if self._view is not None:
            self._draw(self._view)
            self.call_after_refresh(self._place_again)

    def on_windowed_table_window_wanted(self, event: WindowedTable.WindowWanted) -> None:
        """Rows outside the window are in sight."""
        event.stop()
        self._around(event.first + event.count // 2)

    def on_windowed_table_row_highlighted(self, event: WindowedTable.RowHighlighted) -> None:
        """A row was clicked, unless the cursor went on since."""
        event.stop()
        if event.row == event.table.cursor:
            self._move_to(event.row)

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """A click on the row of the cursor opens nothing further."""
        event.stop()

    def on_token_strip_cursor_moved(self, event: TokenStrip.CursorMoved) -> None:
        """A token was clicked, or the cursor went by a line."""
        event.stop()
        if self._view is not None and event.token == event.strip.cursor:
            self._move_to(self._view.first + event.token)

    def action_move(self, by: int) -> None:
        """Moves by tokens."""
        if self._cursor is not None:
            self._move_to(self._cursor + by)

    def action_line(self, by: int) -> None:
        """Moves by a line of the text; where there is no text on the screen, by a row."""
        if self.form == "small" or not self.query_one("#strip", TokenStrip).size.height:
            self.action_move(by)
        else:
            self.query_one("#strip", TokenStrip).action_line(by)

    def action_page(self, by: int) -> None:
        """Moves by a screenful of the table."""
        self.action_move(by * max(1, self.query_one("#tokens").size.height - 2))

    def action_to(self, position: int) -> None:
        """To the first token, or the last."""
        if self._view is not None:
            self._move_to(position % max(1, self._view.total))

    def action_outlier(self, by: int) -> None:
        """To the next outlier, or the one before; from the last on to the first."""
        view = self._view
        if view is None or self._cursor is None or not view.outliers:
            return
        cursor = self._cursor
        further = [each for each in view.outliers if (each - cursor) * by > 0]
        ends = view.outliers if by > 0 else view.outliers[::-1]
        self._move_to((min if by > 0 else max)(further) if further else ends[0])

    def action_goto(self) -> None:
        """Asks for a position."""
        self._type(GOTO, "")

    def on_typing_row_entered(self, event: TypingRow.Entered) -> None:
        """A position was given; commands and filters are the frame's."""
        if event.prefix != GOTO:
            return
        event.stop()
        event.prevent_default()
        self._end_typing()
        try:
            self._go_to(event.text.strip())
        except UserError as error:
            self.say(str(error))

    def action_scoring(self) -> None:
        """Another scoring of the same turn."""
        if self._view is not None and self._view.chosen is not None:
            self._scoring = (self._view.chosen + 1) % len(self._view.scorings)
            self.asked()

    def action_colour(self) -> None:
        """What the shades of the text tell."""
        self._mode = (self._mode + 1) % len(MODES)
        if self._view is not None:
            self._draw(self._view)

    def action_ids(self) -> None:
        """Ids instead of text, and back."""
        self._ids = not self._ids
        if self._view is not None:
            self._draw(self._view)

    def action_diff(self, topic: str) -> None:
        """One of the differences of this turn."""
        self.open(topic, session_id=self._session, turn=self._turn)

    def _say_beyond(self, view: TokenView) -> None:
        """Where the token that was asked for is not there, and another has the cursor."""
        index = self._at[0]
        if index is not None and view.found and (refusal := no_token(view, index, side_of(self.ask()))):
            self.say(refusal)

    def _go_to(self, text: str) -> None:
        """To a position as it is typed."""
        if self._view is not None:
            self._move_to(typed_position(self._view, text))

    @property
    def _view(self) -> TokenView | None:
        return cast("TokenView | None", self.view)

    @property
    def _row(self) -> TokenRow | None:
        return None if self._view is None or self._cursor is None else self._view.row(self._cursor)

    def _move_to(self, position: int) -> None:
        view = self._view
        if view is None or not view.total:
            return
        position = max(0, min(position, view.total - 1))
        if position == self._cursor:
            return
        self._cursor = position
        if view.row(position) is None:
            self._around(position)
        self._place(view)
        self.redraw_frame()

    def _around(self, position: int) -> None:
        """Asks for the window around a position."""
        first = max(0, position - WINDOW // 2)
        if first != self._first:
            self._first = first
            self.asked()

    def _draw(self, view: TokenView) -> None:
        """All of it: the tokens are others, or look otherwise."""
        if not self.query("#why"):
            return
        self.set_class(is_bare(view), "-bare")
        look = self._look
        self.query_one(TokenStrip).set([look.token(view, row) for row in view.rows])
        columns = columns_for(view, self.size.width)
        table = self.query_one(WindowedTable)
        table.set_columns([Column(each.key, each.title, each.width, right=each.right) for each in columns])
        table.set_total(view.total)
        table.set_rows(view.first, [look.cells(view, row, columns) for row in view.rows])
        self._rules(view)
        self._place(view)

    def _place(self, view: TokenView) -> None:
        """Where the cursor is, in each part, what that token was taught, and why its weight is what it is."""
        cursor = self._cursor
        if cursor is None or not self.query("#why"):
            return
        in_completion = cursor if cursor >= view.prompt else None
        self.query_one(PositionChart).set(view.chart, view.prompt, max(view.prompt, view.total - 1), in_completion)
        if view.row(cursor) is not None:
            self.query_one(TokenStrip).move_to(cursor - view.first)
        table = self.query_one(WindowedTable)
        table.move_to(cursor)
        table.scroll_to(y=max(0, cursor - (table.size.height - 1) // 2), animate=False, immediate=True, force=True)
        for name, lines in (("credit", credit_lines(view, cursor, self._because)), ("why", why_lines(view, cursor))):
            self.query_one(f"#{name}", TextRows).set(self._look.box(lines, self.size.width))

    def _place_again(self) -> None:
        if self._view is not None:
            self._place(self._view)

    def _rules(self, view: TokenView) -> None:
        for name, title in self._look.rules(view).items():
            text = self.palette.said(f"─ {title} {'─' * self.size.width}")
            self.query_one(f"#{name}", Row).set([Part(text, self.palette.dim)])

    @property
    def _look(self) -> TokenLook:
        return TokenLook(self.palette, MODES[self._mode], self._ids)


def _still(widget: TokenStrip | WindowedTable) -> Widget:
    """The widget without a focus of its own: the screen has the cursor."""
    widget.can_focus = False
    return widget
