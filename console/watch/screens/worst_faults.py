"""The side pane of a wide terminal: where the chosen lane's check finds the worst faults, to be gone to."""

import textwrap
from collections.abc import Iterable

from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from collector.terminal_text import terminal_safe
from console.format import number_text
from console.watch.frame.row import Part
from console.watch.views.lane import Lane
from console.watch.views.place import Fault, Place, place_text
from console.watch.widgets.palette import Palette
from console.watch.widgets.table import Cell, Column, WindowedTable
from console.watch.widgets.text_rows import TextRows

CELLS = 66
"""How wide the pane is."""
COLUMNS = (
    Column("place", "worst first", 22),
    Column("value", "value", 9, right=True),
    Column("said", "what is said", CELLS - 22 - 9 - 7),
)
_WHY_ROWS = 4


class WorstFaults(Vertical):
    """What the check says, and a row for each fault that it names."""

    DEFAULT_CSS = """
    WorstFaults { width: 66; padding-left: 2; display: none; }
    WorstFaults #worst_why { height: 6; }
    """

    class Wanted(Message):
        """A fault was chosen."""

        def __init__(self, place: Place, check: str) -> None:
            super().__init__()
            self.place = place
            self.check = check

    def __init__(self, palette: Palette, *, id: str) -> None:
        super().__init__(id=id)
        self._palette = palette
        self._lane: Lane | None = None

    def compose(self) -> Iterable[Widget]:
        """The check, then its faults."""
        why = TextRows(id="worst_why")
        why.can_focus = False
        yield why
        yield WindowedTable(COLUMNS, self._palette, id="worst")

    def set(self, lane: Lane | None) -> None:
        """Shows another lane."""
        if lane == self._lane or not self.query("#worst"):
            return
        chosen = self._lane is not None and lane is not None and lane.signal == self._lane.signal
        self._lane = lane
        table = self.query_one("#worst", WindowedTable)
        faults = () if lane is None else lane.faults
        table.set_total(len(faults))
        table.set_rows(0, [self._cells(fault) for fault in faults])
        if not chosen:
            table.move_to(0)
        self.query_one("#worst_why", TextRows).set([] if lane is None else [*self._said(lane)])

    def on_windowed_table_row_highlighted(self, event: WindowedTable.RowHighlighted) -> None:
        """Nothing else follows its cursor."""
        event.stop()

    def on_windowed_table_row_selected(self, event: WindowedTable.RowSelected) -> None:
        """To the fault."""
        event.stop()
        if self._lane is not None and event.row < len(self._lane.faults):
            self.post_message(self.Wanted(self._lane.faults[event.row].place, self._lane.check))

    def _said(self, lane: Lane) -> Iterable[list[Part]]:
        of = "" if lane.faults_total <= len(lane.faults) else f" of {lane.faults_total}"
        title = f"{lane.check}: {len(lane.faults)}{of} faults" if lane.faults else f"{lane.check}: names no fault"
        title = lane.lead or title
        yield [Part(title, self._palette.bold)]
        lines = textwrap.wrap(terminal_safe(self._palette.said(lane.why)), CELLS - 3)
        for line in lines[:_WHY_ROWS]:
            yield [Part(line)]

    def _cells(self, fault: Fault) -> list[Cell]:
        place = fault.place
        value = self._palette.mark("missing") if place.value is None else number_text(place.value)
        lag = "" if fault.lag is None else f"lag {fault.lag}"
        said = [lag, place.kind or "", fault.text or ""]
        texts = (place_text(place), value, "  ".join(each for each in said if each))
        return [Cell(terminal_safe(self._palette.said(text))) for text in texts]
