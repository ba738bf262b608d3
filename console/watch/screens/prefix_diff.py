"""The prefix diff: a turn as it was generated against the prompt that goes on from it."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, cast

from textual.binding import BindingType
from textual.widget import Widget

from console.watch.frame.keys import guarded
from console.watch.frame.list_screen import ListScreen
from console.watch.frame.reflow import Form
from console.watch.frame.row import Part, Row
from console.watch.plain.table_lines import wrapped
from console.watch.screens.drill_crumb import crumb_of
from console.watch.screens.next_turn import next_turn
from console.watch.topic import View
from console.watch.trace.diff_lines import DiffLine
from console.watch.views.diff_words import effect_lines, prefix_words, split_line, unified_line
from console.watch.views.prefix_diff import PrefixDiffAsk, PrefixDiffView
from console.watch.widgets.palette import State
from console.watch.widgets.table import Cell, Column, WindowedTable
from console.watch.widgets.text_rows import TextRows

STATES: dict[str, State | None] = {" ": None, "-": "warning", "~": "warning", "+": "recovering", "=": None}
"""Colours repeat the signs."""


class PrefixDiffScreen(ListScreen):
    """Lines of ids with their signs, and what the break does below."""

    TOPIC: ClassVar[str] = "prefix_diff"
    TITLE: ClassVar[str] = "Prefix diff"  # pyright: ignore[reportIncompatibleVariableOverride]
    HINTS: ClassVar[tuple[str, ...]] = (
        "search.next",
        "time.next",
        "diff.open_run",
        "diff.layout",
        "token.ids",
        "token.retok_diff",
        "open",
        "frame.copy",
        "frame.export",
    )
    ROWS_BY: ClassVar[tuple[str, ...]] = ("session_id", "turn")
    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("search.next", "broken(1)"),
        guarded("search.previous", "broken(-1)"),
        guarded("diff.open_run", "open_run"),
        guarded("diff.layout", "layout"),
        guarded("token.ids", "ids"),
        guarded("token.retok_diff", "retok"),
    ]
    DEFAULT_CSS = """
    PrefixDiffScreen #effect { height: 6; }
    PrefixDiffScreen.-normal #effect { height: 4; }
    PrefixDiffScreen.-small #effect, PrefixDiffScreen.-small #effect_rule { display: none; }
    """

    def __init__(self, session_id: str, turn: int) -> None:
        super().__init__(first=-1, count=80)
        self._session = session_id
        self._turn: int = turn
        self._split: bool | None = None
        self._opened: frozenset[int] = frozenset()
        self._ids = False
        self._placed = False

    def compose_body(self) -> Iterable[Widget]:
        """The two sides, and the effect."""
        yield Row(id="sides")
        yield WindowedTable(self._columns(), self.palette, header=False, id="lines")
        yield Row(id="effect_rule")
        yield TextRows(id="effect")

    def ask(self) -> PrefixDiffAsk:
        """The window in sight."""
        first, count = self._window
        return PrefixDiffAsk(
            selected=(self._session, str(self._turn)),
            session_id=self._session,
            turn=self._turn,
            split=self._splits,
            opened=tuple(sorted(self._opened)),
            first=first,
            count=count,
        )

    def show(self, view: View) -> None:
        """Draws the window."""
        view = cast(PrefixDiffView, view)
        table = self._table
        table.set_columns(self._columns())
        table.set_total(view.total)
        table.set_rows(view.first, [self._cells(line) for line in view.lines])
        if not self._placed and view.lines:
            self._placed = True
            place = next((at for at, line in enumerate(view.lines) if line.sign != " "), 0)
            # What follows is in sight, and before all else what goes before.
            for near in (12, -5, 0):
                table.move_to(view.first + place + near)
        self._around(view)

    def sentence(self, view: View) -> str:
        """Kept, lost, new, and the cause."""
        return self.palette.said(prefix_words(cast(PrefixDiffView, view), short=self.form != "full"))

    def crumb(self) -> str:
        """The turn."""
        return crumb_of(self, self._session, self._turn, "prefix")

    def copied(self) -> str:
        """The line of the cursor."""
        line = self._line()
        return "" if line is None else unified_line(line, ids_only=self._ids)

    def copies(self) -> Sequence[tuple[str, str]]:
        """The line, the sentence, the lines in sight."""
        view = self._view
        if view is None or not view.lines:
            return []
        lines = "\n".join(unified_line(each, ids_only=self._ids) for each in view.lines)
        said = "\n".join([prefix_words(view), *effect_lines(view)])
        return [("line", self.copied()), ("what it does", said), ("lines", lines)]

    def exported(self, view: View) -> Sequence[object]:
        """The runs."""
        return cast(PrefixDiffView, view).runs

    def off(self, key: str) -> str | None:
        """Without a break, or a long run, there is nothing to go to or to open."""
        view = self._view
        if key in ("search.next", "search.previous") and view is not None and not view.broken:
            return "no turn of this session breaks"
        if key == "open" and (view is None or view.previous is None):
            return "there is no earlier turn to open"
        return super().off(key)

    def stepped(self, by: int) -> bool:
        """To another turn of the session."""
        turns = () if self._view is None else self._view.turns
        self._go(next_turn(self, turns, self._turn, by))
        return True

    def resized(self, form: Form) -> None:
        """One column in narrow terminals, unless it was chosen otherwise."""
        self._window = (-1, self._window[1]) if not self._placed else self._window
        self.asked()
        super().resized(form)

    def on_windowed_table_row_highlighted(self, event: WindowedTable.RowHighlighted) -> None:
        """Another line is chosen."""
        event.stop()

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """Opens the earlier turn's tokens at the difference."""
        event.stop()
        view = self._view
        if view is None or view.previous is None:
            return
        inside = view.inside == "completion"
        at = view.index_inside if view.inside is not None else None
        side = "completion" if inside or at is None else "prompt"
        self.open("token", session_id=self._session, turn=view.previous, token_index=at, side=side)

    def action_broken(self, by: int) -> None:
        """To the next turn that breaks."""
        broken = () if self._view is None else self._view.broken
        further = [each for each in broken if (each - self._turn) * by > 0]
        if further:
            self._go((min if by > 0 else max)(further))
        else:
            self.say(f"no {'later' if by > 0 else 'earlier'} turn of this session breaks")

    def action_open_run(self) -> None:
        """Shows the run of the cursor whole, or folds it again."""
        line = self._line()
        if line is not None:
            runs = {line.run, line.run + 1} if self._splits and line.now is None and line.before is None else {line.run}
            self._opened = self._opened - runs if self._opened & runs else self._opened | runs
            self.asked()

    def action_layout(self) -> None:
        """One column or two."""
        self._split = not self._splits
        self._window, self._placed = (-1, self._window[1]), False
        self.asked()

    def action_ids(self) -> None:
        """Ids alone, or with text."""
        self._ids = not self._ids
        if self.view is not None:
            self.show(self.view)

    def action_retok(self) -> None:
        """The other difference."""
        self.open("retok_diff", session_id=self._session, turn=self._turn)

    @property
    def _splits(self) -> bool:
        return self.app.size.width >= 110 if self._split is None else self._split

    @property
    def _table(self) -> WindowedTable:
        return self.query_one("#lines", WindowedTable)

    @property
    def _view(self) -> PrefixDiffView | None:
        return cast("PrefixDiffView | None", self.view)

    def _go(self, turn: int) -> None:
        if turn != self._turn:
            self._turn, self._opened, self._placed = turn, frozenset(), False
            self._window = (-1, self._window[1])
            self.asked()

    def _line(self) -> DiffLine | None:
        view = self._view
        if view is None or not self.query("#lines"):
            return None
        at = self._table.cursor - view.first
        return view.lines[at] if 0 <= at < len(view.lines) else None

    def _columns(self) -> list[Column]:
        width = self.app.size.width
        if not self._splits:
            return [Column("line", "", max(20, width - 3))]
        half = max(10, (width - 8) // 2)
        return [Column("before", "", half), Column("sign", "", 1), Column("now", "", half)]

    def _cells(self, line: DiffLine) -> list[Cell]:
        view, state = self._view, STATES[line.sign]
        said = self.palette.said if line.folded else str
        if view is not None and view.split != self._splits:
            return [Cell("") for _ in self._columns()]
        if not self._splits:
            return [Cell(said(unified_line(line, ids_only=self._ids)), state, dim=bool(line.folded))]
        left, sign, right = split_line(line, ids_only=self._ids)
        return [Cell(said(left), state, dim=bool(line.folded)), Cell(sign, state), Cell(said(right), state)]

    def _around(self, view: PrefixDiffView) -> None:
        """The titles of the sides, and the effect."""
        left = f"turn {view.previous} as generated (prompt + completion, {view.before_tokens} ids)"
        right = f"turn {view.turn} prompt as sent ({view.now_tokens} ids)"
        if view.previous is None:
            text = ""
        elif self._splits:
            half = max(10, (self.app.size.width - 8) // 2) + 4
            text = f"  {left[:half]:<{half}} {right}"
        else:
            text = f"   {f'turn {view.previous}':>6} {f'turn {view.turn}':>7}      id  text"
        self.query_one("#sides", Row).set([Part(self.palette.said(text), self.palette.dim)])
        rule = "─ effect ─── signs: - removed  + added  = aligned again " + "─" * self.size.width
        self.query_one("#effect_rule", Row).set([Part(self.palette.said(rule), self.palette.dim)])
        width = max(20, self.size.width - 2)
        lines = [part for line in effect_lines(view) for part in wrapped(self.palette.said(line), width)]
        rows = [[Part(f" {line}")] for line in lines]
        self.query_one("#effect", TextRows).set(rows or [[Part(" no break here", self.palette.dim)]])
