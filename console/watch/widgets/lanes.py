"""Signal lanes on one shared step axis, with the onset of each that moved."""

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from console.watch.frame.keys import bound
from console.watch.views.lane import Lane
from console.watch.widgets.lane_rows import Drawn, LanesLayout, Piece, drawn_lanes
from console.watch.widgets.palette import Palette


class SignalLanes(Widget, can_focus=True):
    """Draws lanes; what they hold is drawn once for a size and a choice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("move.down", "move(1)"),
        bound("move.up", "move(-1)"),
        bound("move.first", "move(-99)"),
        bound("move.last", "move(99)"),
        bound("open", "choose"),
    ]
    DEFAULT_CSS = "SignalLanes { height: 1fr; }"

    class LaneHighlighted(Message):
        """Another lane has the spare rows."""

        def __init__(self, lanes: "SignalLanes", signal: str) -> None:
            super().__init__()
            self.lanes = lanes
            self.signal = signal

        @property
        def control(self) -> "SignalLanes":
            """The widget."""
            return self.lanes

    class LaneSelected(LaneHighlighted):
        """A lane was chosen with Enter or a second click."""

    def __init__(self, palette: Palette, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._palette = palette
        self._lanes: tuple[Lane, ...] = ()
        self._axis = (0, 1)
        self._selected = 0
        self._picked = False
        self._key: object = None
        self._drawn: Drawn = {}
        self._drawn_of: object = None
        self._strips: list[Strip] = []
        self._lane_of: list[int | None] = []

    @property
    def selected(self) -> Lane | None:
        """The lane that has the spare rows."""
        return self._lanes[self._selected] if self._lanes else None

    def set(self, lanes: Sequence[Lane], axis: tuple[int, int]) -> None:
        """Other lanes, in the order in which they are drawn. The chosen signal stays chosen."""
        before = self.selected
        if tuple(lanes) == self._lanes and axis == self._axis:
            return
        self._lanes, self._axis = tuple(lanes), axis
        names = [lane.signal for lane in lanes]
        keep = before is not None and self._picked and before.signal in names
        self._selected = names.index(before.signal) if keep and before is not None else 0
        self.refresh()

    def choose(self, signal: str) -> None:
        """Gives a signal the spare rows."""
        for index, lane in enumerate(self._lanes):
            if lane.signal == signal:
                self._select(index)

    def action_move(self, by: int) -> None:
        """Moves the choice."""
        self._select(max(0, min(len(self._lanes) - 1, self._selected + by)))

    def action_choose(self) -> None:
        """Opens the chosen lane."""
        lane = self.selected
        if lane is not None:
            self.post_message(self.LaneSelected(self, lane.signal))

    def on_click(self, event: events.Click) -> None:
        """Chooses the lane clicked; a second click opens it."""
        index = self._lane_of[event.y] if event.y < len(self._lane_of) else None
        if index is None:
            return
        if index == self._selected:
            self.action_choose()
        else:
            self._select(index)

    def render_line(self, y: int) -> Strip:
        """One line of all lanes."""
        self._draw()
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width, Style())

    def _select(self, index: int) -> None:
        self._picked = True
        if index == self._selected or not self._lanes:
            return
        self._selected = index
        self.refresh()
        self.post_message(self.LaneHighlighted(self, self._lanes[index].signal))

    def _draw(self) -> None:
        key = (id(self._lanes), self._axis, self._selected, self.size, self.has_focus)
        if key == self._key:
            return
        self._key = key
        layout = LanesLayout(self.size.width, self.size.height, self._palette.curve)
        if self._drawn_of != (id(self._lanes), self._axis, layout):
            self._drawn, self._drawn_of = {}, (id(self._lanes), self._axis, layout)
        lines = drawn_lanes(self._lanes, self._axis, self._selected, layout, self._palette, self._drawn)
        self._strips = [_strip(line.pieces, self.size.width) for line in lines]
        self._lane_of = [line.lane for line in lines]


def _strip(pieces: Sequence[Piece], width: int) -> Strip:
    text = [Segment(piece.text, piece.style) for piece in pieces]
    return Strip(text).adjust_cell_length(width, Style())
