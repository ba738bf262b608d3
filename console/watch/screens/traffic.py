"""The Traffic screen: what comes in, what became of it and why, and the sessions."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, cast

from rich.cells import chop_cells
from textual.binding import BindingType
from textual.widget import Widget

from collector.terminal_text import terminal_safe
from console.watch.frame.head import ago
from console.watch.frame.keys import guarded
from console.watch.frame.list_screen import ListScreen
from console.watch.frame.reflow import Form
from console.watch.frame.row import Part, Row
from console.watch.plain.traffic import (
    delay_text,
    endings_text,
    feedback_line,
    last_lines,
    last_title,
    reward_text,
    session_text,
    share,
    stage_text,
    summary,
)
from console.watch.topic import Ask, View
from console.watch.views.last_turn import LastTurn
from console.watch.views.traffic import Numbers, TrafficView
from console.watch.views.trajectories import FIELDS, SORTS, TrajectoryRow
from console.watch.widgets.palette import State
from console.watch.widgets.table import Cell, Column, WindowedTable
from console.watch.widgets.text_rows import TextRows

BAR_CELLS = 40
TENANTS_SHOWN = 4
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = " .:-=+*#@"
_FEEDBACK: dict[str, tuple[str, State | None]] = {
    "up": ("+ up", None),
    "down": ("- down", "warning"),
    "mixed": ("~ mixed", None),
}


class TrafficScreen(ListScreen):
    """Numbers above, sessions below."""

    TOPIC: ClassVar[str] = "traffic"
    TITLE: ClassVar[str] = "Traffic"  # pyright: ignore[reportIncompatibleVariableOverride]
    HINTS: ClassVar[tuple[str, ...]] = (
        "open",
        "list.follow",
        "frame.filter",
        "list.sort",
        "list.order",
        "list.wide",
        "time.signals",
        "frame.copy",
        "frame.export",
    )
    FIELDS: ClassVar = FIELDS
    AUTO_FOCUS: ClassVar[str | None] = "#sessions"
    ROWS_BY: ClassVar[tuple[str, ...]] = ("adapter", "filter", "sort", "descending")
    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("list.follow", "follow"),
        guarded("list.sort", "sort"),
        guarded("list.order", "order"),
        guarded("search.next", "broken(1)"),
        guarded("search.previous", "broken(-1)"),
    ]
    DEFAULT_CSS = """
    TrafficScreen #flow { height: auto; max-height: 14; border-bottom: solid ansi_bright_black; }
    TrafficScreen #last { height: 6; }
    TrafficScreen.-normal #last, TrafficScreen.-small #last { display: none; }
    TrafficScreen.-normal #last_rule, TrafficScreen.-small #last_rule { display: none; }
    TrafficScreen.-normal #flow { max-height: 6; }
    TrafficScreen.-small #flow { max-height: 3; border-bottom: none; }
    """

    def __init__(self, filter: str = "") -> None:
        super().__init__(count=100)
        self.filter_text = filter
        self._sort = ""
        self._descending = True
        self._session: str | None = None

    def compose_body(self) -> Iterable[Widget]:
        """The flow, the sessions, and what is said in the chosen one."""
        yield TextRows(id="flow")
        yield WindowedTable(self._columns(), self.palette, id="sessions")
        yield Row(id="last_rule")
        yield TextRows(id="last")

    def ask(self) -> Ask:
        """The sessions in sight, and where there is room the chosen one's last turn."""
        first, count = self._window
        return Ask(
            selected=() if self._session is None or self.form != "full" else (self._session,),
            adapter=self.frame.adapter,
            filter=self.filter_text,
            sort=self._sort,
            descending=self._descending,
            first=first,
            count=count,
        )

    def show(self, view: View) -> None:
        """Draws both."""
        view = cast(TrafficView, view)
        self._show_flow(view.numbers)
        self._table.set_total(view.total)
        self._table.set_rows(view.first, [self._cells(row) for row in view.rows])
        self._show_last(view.last)
        self._chosen()

    def sentence(self, view: View) -> str:
        """How much there is, and how fast it comes."""
        view = cast(TrafficView, view)
        filtered = f"/{self.filter_text}: {view.total} listed   " if self.filter_text else ""
        return f"{filtered}{summary(view.numbers)}  {self._spark(view.numbers.pace)}"

    def copied(self) -> str:
        """The chosen session's id."""
        row = self._row()
        return "" if row is None else row.session_id

    def copies(self) -> Sequence[tuple[str, str]]:
        """The id, or what is said of the session."""
        row = self._row()
        return [] if row is None else [("session id", row.session_id), ("line", session_text(row))]

    def exported(self, view: View) -> Sequence[object]:
        """The sessions of the window."""
        return cast(TrafficView, view).rows

    def at(self) -> datetime | None:
        """When the chosen session was last seen."""
        row = self._row()
        return None if row is None else row.last_at

    def off(self, key: str) -> str | None:
        """Without a session there is none to open."""
        if key == "open" and self._row() is None:
            return "no session is selected"
        return super().off(key)

    def resized(self, form: Form) -> None:
        """More about each session where there is more room."""
        self._table.set_columns(self._columns())
        super().resized(form)
        self.asked()

    def on_windowed_table_row_highlighted(self) -> None:
        """What can be done with the session may differ."""
        self._chosen()
        self.redraw_frame()

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """Opens its turns."""
        event.stop()
        if (row := self._row()) is not None:
            self.open("turn", session_id=row.session_id)

    def action_follow(self) -> None:
        """To the newest session, where it stays: the list begins with it."""
        self._sort, self._descending = "", True
        self._table.action_first()
        self.asked()

    def action_broken(self, by: int) -> None:
        """To the next session with a break among those in the window."""
        view = cast("TrafficView | None", self.view)
        places = [view.first + at for at, row in enumerate(view.rows) if row.breaks] if view is not None else []
        if not self.go_on(self._table, places, by):
            self.say("no further session with a break in sight")

    def action_sort(self) -> None:
        """By the next column."""
        names = ["", *SORTS]
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self.say(f"sorted by {self._sort}" if self._sort else "the newest first")
        self.asked()

    def action_order(self) -> None:
        """The other way round."""
        self._descending = not self._descending
        self.asked()

    @property
    def _table(self) -> WindowedTable:
        return self.query_one("#sessions", WindowedTable)

    def _row(self) -> TrajectoryRow | None:
        view = cast("TrafficView | None", self.view)
        if view is None:
            return None
        at = self._table.cursor - view.first
        return view.rows[at] if 0 <= at < len(view.rows) else None

    def _chosen(self) -> None:
        """The last turn of the session of the cursor is wanted."""
        row = self._row()
        session = None if row is None else row.session_id
        if session != self._session:
            self._session = session
            if self.form == "full":
                self.asked()

    def _show_last(self, last: LastTurn | None) -> None:
        if last is None or last.session_id != self._session:
            return
        rule = self.palette.mark("rule")
        title = f"{rule} {self.palette.said(last_title(last))} {rule * self.size.width}"
        self.query_one("#last_rule", Row).set([Part(title, self.palette.dim)])
        width = max(20, self.size.width - 16)
        rows = [
            [Part(f" {role if at == 0 else '':<12} ", self.palette.bold), Part(line)]
            for role, text in last_lines(last)
            for at, line in enumerate(chop_cells(self.palette.said(text), width) or [""])
        ]
        self.query_one("#last", TextRows).set(rows)

    def _show_flow(self, numbers: Numbers) -> None:
        rows = self._full_flow(numbers) if self.form == "full" else self._short_flow(numbers)
        self.query_one("#flow", TextRows).set([[Part(f" {line}")] for line in rows])

    def _full_flow(self, numbers: Numbers) -> list[str]:
        lines = [f"{feedback_line(numbers)}   first token {delay_text(numbers.first_token)}"]
        for stage in numbers.stages:
            whole = numbers.stages[0].turns
            filled = round(BAR_CELLS * stage.turns / whole) if stage.turns and whole else 0
            bar = ("#" if self.palette.ascii else "▄") * filled
            lines.append(f"{stage_text(stage, numbers.stages[0]):<52}{bar}")
        lines += [self._why(numbers), endings_text(numbers)]
        shown = numbers.tenants[:TENANTS_SHOWN]
        lines += [
            f"tenant {terminal_safe(one.tenant):<16} {one.sessions:>6,} sessions {one.turns:>7,} turns   answered "
            f"{share(one.answered, one.sessions)}   trainable {share(one.trainable, one.turns)}"
            for one in shown
        ]
        more = len(numbers.tenants) - len(shown)
        return [*lines, f"and {more} more tenants"] if more else lines

    def _short_flow(self, numbers: Numbers) -> list[str]:
        arrow = f" {self.palette.mark('arrow')} "
        missing = self.palette.mark("missing")
        way = arrow.join(f"{stage.name} {missing if stage.turns is None else stage.turns}" for stage in numbers.stages)
        judged = numbers.feedback
        told = missing if judged is None else f"{judged.judgements}, delay {delay_text(judged.delay)}"
        delay = f"feedback {told}"
        first = f"first token {delay_text(numbers.first_token)}"
        return [way, self._why(numbers), f"{delay}   {first}", endings_text(numbers)]

    def _why(self, numbers: Numbers) -> str:
        why = f" {self.palette.mark('middot')} ".join(f"{one.reason} {one.turns:,}" for one in numbers.reasons)
        return f"why not: {why or 'nothing is left out'}"

    def _spark(self, pace: Sequence[int]) -> str:
        """The pace as one row of bars; the highest minute is full."""
        most = max(pace, default=0)
        blocks = _ASCII_BLOCKS if self.palette.ascii else _BLOCKS
        steps = len(blocks) - 1
        return (
            "".join(blocks[-(-count * steps // most)] if count else blocks[0] for count in pace).lstrip()
            if most
            else ""
        )

    def _columns(self) -> list[Column]:
        width = self.app.size.width
        session, adapter = (40, 20) if width >= 120 else (20, 13) if width >= 80 else (11, 8)
        return [
            Column("session", "session", session),
            Column("adapter", "adapter", adapter),
            Column("turns", "turns", 5, right=True),
            Column("tok", "tok", 6, right=True, wide=width < 80),
            Column("last", "last", 5, right=True),
            Column("prefix", "prefix", 7),
            Column("fb", "fb", 7),
            Column("reward", "rew", 5, right=True),
            Column("tenant", "tenant", 12, wide=width < 120),
            Column("why", "why not", 14, wide=True),
        ]

    def _cells(self, row: TrajectoryRow) -> list[Cell]:
        missing = self.palette.mark("missing")
        now = self.frame.facts().status.at
        last = missing if now is None or row.last_at is None else ago(row.last_at, now)
        feedback, state = _FEEDBACK.get(row.feedback or "", (missing, None))
        broken = bool(row.breaks)
        prefix = missing if row.breaks is None else f"{self.palette.mark('no')} t{row.break_turn}" if broken else "ok"
        return [
            Cell(self._short(row.session_id, self._columns()[0].width)),
            Cell(terminal_safe(row.served or missing)),
            Cell(str(row.turns)),
            Cell(missing if row.tokens is None else str(row.tokens)),
            Cell(last),
            Cell(prefix, "warning" if broken else None),
            Cell(feedback, state),
            Cell(missing if row.reward is None else reward_text(row.reward, 2)),
            Cell(terminal_safe(row.tenant or missing)),
            Cell(terminal_safe(row.why_not or missing)),
        ]

    def _short(self, session_id: str, width: int) -> str:
        """An id's end: its beginning is the same for all sessions of a client."""
        safe, dots = terminal_safe(session_id), self.palette.mark("ellipsis")
        return safe if len(safe) <= width else dots + safe[len(dots) - width :]
