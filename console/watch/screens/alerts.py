"""Every alert, grouped by incident, and the chosen one in detail."""

import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, cast

from textual.binding import BindingType
from textual.message import Message
from textual.widget import Widget

from collector.terminal_text import terminal_safe
from console.watch.evaluator_lock import evaluator_running
from console.watch.frame.filter import Fields
from console.watch.frame.keys import guarded
from console.watch.frame.reflow import Form
from console.watch.frame.row import Part
from console.watch.plain.alert_text import (
    age_text,
    counts_text,
    evaluator_text,
    limit_text,
    line_text,
    scope_text,
    severity_word,
    state_word,
    value_text,
    who_text,
)
from console.watch.plain.alerts import detail_lines, group_text
from console.watch.screens.alert_screen import AlertScreen, nothing_at
from console.watch.topic import View
from console.watch.views.alert_lines import AlertLine
from console.watch.views.alerts import FIELDS, AlertDetail, AlertsAsk, AlertsView, Group
from console.watch.views.place import Place, place_text
from console.watch.widgets.braille import Scale, columns_of, raster, scale_of
from console.watch.widgets.table import Cell, Column, WindowedTable
from console.watch.widgets.text_rows import TextRows

LOOK_S = 3.0
"""Between two looks for an evaluator."""
HISTORY_CELLS = 48
"""Cells of the curve of an alert's values."""
_FULL = (
    Column("sev", "sev", 7),
    Column("state", "state", 12),
    Column("rule", "rule", 20),
    Column("value", "value", 8, right=True),
    Column("limit", "limit", 9),
    Column("for", "for", 4, right=True),
    Column("scope", "scope", 16),
    Column("place", "evidence", 16),
    Column("who", "who", 17),
)
_NORMAL = (
    Column("sev", "sev", 8),
    Column("state", "state", 10),
    Column("rule", "rule", 17),
    Column("value", "value", 7, right=True),
    Column("limit", "limit", 8),
    Column("for", "for", 4, right=True),
    Column("place", "evidence", 16),
    Column("scope", "scope", 16, wide=True),
    Column("who", "who", 18, wide=True),
)


class _Row(NamedTuple):
    """One row of the table: an alert, or the title of its group."""

    group: Group
    line: AlertLine | None

    @property
    def key(self) -> tuple[int | None, str | None]:
        """What it is, whatever stands above it."""
        return self.group.incident, None if self.line is None else self.line.rule


class AlertsScreen(AlertScreen):
    """Enter goes to the worst token of the alert."""

    TOPIC = "alerts"
    TITLE = "Alerts"
    FIELDS: ClassVar[Fields | None] = FIELDS
    HINTS: ClassVar[tuple[str, ...]] = (
        "open",
        "alerts.acknowledge",
        "alerts.silence",
        "alerts.comment",
        "time.signals",
        "frame.filter",
        "frame.copy",
        "frame.export",
    )
    BINDINGS: ClassVar[list[BindingType]] = [guarded("move.left", "fold(True)"), guarded("move.right", "fold(False)")]
    DEFAULT_CSS = """
    AlertsScreen #alerts { height: 2fr; max-height: 14; }
    AlertsScreen #detail { height: 3fr; }
    AlertsScreen #evaluator { height: 1; }
    AlertsScreen.-small #detail { display: none; }
    """

    class EvaluatorChanged(Message):
        """Somebody began to evaluate, or nobody does any more."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0
        self._looking = False
        self._rule: str | None = None
        self._key: tuple[int | None, str | None] | None = None
        self._rows: tuple[_Row, ...] = ()
        self._folded: frozenset[int | None] = frozenset()

    def compose_body(self) -> Iterable[Widget]:
        """The list, and the chosen alert below it."""
        evaluator = TextRows(id="evaluator")
        evaluator.can_focus = False
        yield evaluator
        yield WindowedTable(_FULL, self.palette, id="alerts")
        detail = TextRows(id="detail")
        if self.palette.ascii:
            detail.styles.scrollbar_size_vertical = 0
        yield detail

    def ask(self) -> AlertsAsk:
        """The chosen rule's detail."""
        chosen = () if self._rule is None else (self._rule,)
        return AlertsAsk(adapter=self.frame.adapter, filter=self.filter_text, selected=chosen, looks=self._looks)

    def on_mount(self) -> None:
        """An evaluator that dies writes nothing: it is looked for now and then."""
        self.set_interval(LOOK_S, self._look)

    def keep_place(self) -> None:
        """The alert, or the title of its group."""
        if (at := self.query_one(WindowedTable).cursor) < len(self._rows):
            self._key = self._rows[at].key

    def show(self, view: View) -> None:
        """Draws the list and the detail."""
        alerts = cast(AlertsView, view)
        if self._rule is None and alerts.detail is not None:
            self._rule = alerts.detail.line.rule
            # What is built later answers the ask that was made last, which must be this screen's own.
            self.asked()
        self._rows = tuple(self._listed(alerts))
        table = self.query_one(WindowedTable)
        table.set_columns(_FULL if self.app.size.width >= 120 else _NORMAL)
        table.set_total(len(self._rows))
        table.set_rows(0, [self._cells(row) for row in self._rows])
        if (at := self._place()) is not None:
            table.move_to(at)
        said = self.palette.said(evaluator_text(alerts))
        style = self.palette.style("error") if alerts.evaluating is False else self.palette.dim
        self.query_one("#evaluator", TextRows).set([[Part(f" {said}", style)]])
        self.query_one("#detail", TextRows).set(self._detail(alerts.detail))

    def resized(self, form: Form) -> None:  # noqa: ARG002
        """Other columns."""
        if isinstance(self.view, AlertsView):
            self.show(self.view)

    def sentence(self, view: View) -> str:
        """How many are in each state."""
        alerts = cast(AlertsView, view)
        said = counts_text(alerts) if alerts.groups or alerts.ok else "no evaluation is on record"
        return self.palette.said(said)

    def crumb(self) -> str:
        """Incident and rule."""
        line = self.selected_alert()
        if line is None:
            return "alerts"
        incident = "" if line.incident is None else f" › incident {line.incident}"
        return f"alerts{incident} › {line.rule}"

    def copied(self) -> str:
        """The chosen alert with its evidence."""
        detail = self._shown_detail()
        return "" if detail is None else "\n".join([line_text(detail.line), *detail_lines(detail)])

    def copies(self) -> Sequence[tuple[str, str]]:
        """The alert, and where its worst fault is."""
        detail = self._shown_detail()
        places = [] if detail is None else [fault.place for fault in detail.evidence[:1]]
        return [("alert", self.copied()), *(("worst fault", place_text(place, short=False)) for place in places)]

    def exported(self, view: View) -> Sequence[object]:
        """Every alert."""
        return [line for group in cast(AlertsView, view).groups for line in group.alerts]

    def at(self) -> datetime | None:
        """When the chosen alert began."""
        line = self.selected_alert()
        return None if line is None else line.began_at or line.at

    def selected_alert(self) -> AlertLine | None:
        """The alert of the cursor."""
        return next((row.line for row in self._rows if row.line and row.line.rule == self._rule), None)

    def off(self, key: str) -> str | None:
        """What names no fault that can be gone to opens nothing."""
        if key == "open":
            row = self._chosen_row()
            return "no alert is selected" if row is None else row.line and nothing_at(self._worst(row.line))
        return super().off(key)

    def on_windowed_table_row_highlighted(self, event: WindowedTable.RowHighlighted) -> None:
        """Its detail is wanted."""
        row = self._rows[event.row] if event.row < len(self._rows) else None
        if row is None:
            return
        self._key = row.key
        if row.line is not None and row.line.rule != self._rule:
            self._rule = row.line.rule
            self.asked()
            self.redraw_frame()

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """An alert: to its worst token. A group: folds or opens it."""
        if event.row >= len(self._rows):
            return
        row = self._rows[event.row]
        if row.line is None:
            self._fold(row.group.incident, row.group.incident not in self._folded)
            return
        self.go_to(self._worst(row.line), row.line.check)

    def on_alerts_screen_evaluator_changed(self, _: "AlertsScreen.EvaluatorChanged") -> None:
        """The view that says so."""
        self._looks += 1
        self.asked()

    def _look(self) -> None:
        """In a thread, for a disk may hang; not before the look before is over."""
        view = self.view
        if self.is_current and isinstance(view, AlertsView) and view.store is not None and not self._looking:
            self._looking = True
            self.run_worker(partial(self._looked, Path(view.store), view.evaluating), thread=True)

    def _looked(self, store: Path, shown: bool | None) -> None:
        try:
            if evaluator_running(store) is not shown:
                self.post_message(self.EvaluatorChanged())
        finally:
            self._looking = False

    def action_fold(self, closed: bool) -> None:
        """Folds the group of the cursor, or opens it."""
        at = self.query_one(WindowedTable).cursor
        if at < len(self._rows):
            self._key = (self._rows[at].group.incident, None) if closed else self._key
            self._fold(self._rows[at].group.incident, closed)

    def _fold(self, incident: int | None, closed: bool) -> None:
        self._folded = self._folded | {incident} if closed else self._folded - {incident}
        if self.view is not None:
            self.show(self.view)

    def _chosen_row(self) -> _Row | None:
        at = self.query_one(WindowedTable).cursor if self.query(WindowedTable) else len(self._rows)
        return self._rows[at] if at < len(self._rows) else None

    def _place(self) -> int | None:
        """The row of the cursor: where it stood, else that of the alert in the detail."""
        keys = [row.key for row in self._rows]
        rules = [rule for _, rule in keys]
        if self._key in keys:
            return keys.index(self._key)
        return rules.index(self._rule) if self._rule is not None and self._rule in rules else None

    def _worst(self, line: AlertLine) -> Place | None:
        """The worst fault that names a session, of what is read now; else what the evaluator named."""
        detail = self._shown_detail()
        faults = [] if detail is None or detail.line.rule != line.rule else [fault.place for fault in detail.evidence]
        return next((place for place in faults if place.session_id is not None), line.place or next(iter(faults), None))

    def _shown_detail(self) -> AlertDetail | None:
        return self.view.detail if isinstance(self.view, AlertsView) else None

    def _listed(self, view: AlertsView) -> Iterable[_Row]:
        for group in view.groups:
            yield _Row(group, None)
            if group.incident not in self._folded:
                yield from (_Row(group, line) for line in group.alerts)

    def _cells(self, row: _Row) -> list[Cell | str]:
        palette = self.palette
        if row.line is None:
            fold = palette.mark("closed" if row.group.incident in self._folded else "open")
            return [Cell(palette.said(f"{fold} {group_text(row.group)}"))]
        line = row.line
        cells: dict[str, Cell | str] = {
            "sev": Cell(f"{palette.glyph(line.state)} {severity_word(line)}", line.state),
            "state": Cell(state_word(line), line.state),
            "rule": line.rule,
            "value": value_text(line),
            "limit": limit_text(line),
            "for": age_text(line.for_s),
            "scope": scope_text(line),
            "place": place_text(line.place),
            "who": who_text(line),
        }
        columns = _FULL if self.app.size.width >= 120 else _NORMAL
        return [self._safe(cells[column.key]) for column in columns]

    def _safe(self, cell: Cell | str) -> Cell:
        whole = Cell(cell) if isinstance(cell, str) else cell
        return whole._replace(text=self.palette.said(whole.text))

    def _detail(self, detail: AlertDetail | None) -> list[list[Part]]:
        palette = self.palette
        if detail is None:
            return [[Part(" no alert is selected", palette.dim)]]
        width = self.app.size.width
        rule = palette.mark("rule")
        title = f"{rule} {detail.line.rule} {rule} {state_word(detail.line)} "
        rows = [[Part(title + rule * max(0, width - len(title)), palette.dim)], *self._history(detail)]
        wrapped = [part for line in detail_lines(detail) for part in _wrapped(palette.said(line), width - 3)]
        return rows + [[Part(f" {line}")] for line in wrapped]

    def _history(self, detail: AlertDetail) -> list[list[Part]]:
        """The value whenever the alert moved, as a curve over time; none of a single value."""
        known = [(at.timestamp(), value) for at, value in detail.history if value is not None]
        if len(known) < 2 or known[0][0] == known[-1][0]:
            return []
        values = [value for _, value in known]
        axis, form = Scale(known[0][0], known[-1][0]), self.palette.curve
        columns = columns_of([at for at, _ in known], values, axis, HISTORY_CELLS * (2 if form == "braille" else 1))
        curve = raster(columns, scale_of(values), 1, form)[0]
        crossed = "" if detail.line.began_at is None else f"     at fault since {detail.line.began_at:%H:%M:%SZ}"
        return [
            [Part(f"  {value_text(detail.line)} "), Part(curve), Part(f"  limit {limit_text(detail.line)}{crossed}")]
        ]


def _wrapped(line: str, width: int) -> list[str]:
    """A line in lines of a width, the later ones indented."""
    return textwrap.wrap(terminal_safe(line), width, subsequent_indent=" " * 7) or [""]
