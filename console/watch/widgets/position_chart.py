"""log w along the tokens of a turn: the least and the greatest of each part, the cursor below."""

from collections.abc import Sequence

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from console.watch.widgets.braille import Columns, Form, Scale, raster
from console.watch.widgets.palette import Palette

LABEL = 7
"""Cells of the scale at the left."""
Part = tuple[float, float] | None


class PositionChart(Widget):
    """Draws what it was given for its own width; the line of w = 1 is always there."""

    DEFAULT_CSS = "PositionChart { width: 1fr; height: 6; }"

    def __init__(self, palette: Palette, *, id: str) -> None:
        super().__init__(id=id)
        self._palette = palette
        self._parts: Sequence[Part] = ()
        self._ends = (0, 0)
        self._cursor: int | None = None

    @property
    def columns(self) -> int:
        """How many parts it can draw."""
        return chart_columns(self.size.width, ascii_only=self._palette.ascii)

    def set(self, parts: Sequence[Part], first: int, last: int, cursor: int | None) -> None:
        """Other parts of the tokens from one position to another, and the cursor's; None for a cursor elsewhere."""
        if (tuple(parts), (first, last), cursor) != (tuple(self._parts), self._ends, self._cursor):
            self._parts, self._ends, self._cursor = tuple(parts), (first, last), cursor
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The chart's rows, then the axis."""
        width, height = self.size
        lines = chart_lines(self._parts, self._ends, self._cursor, width, height, self._palette)
        text = lines[y] if y < len(lines) else ""
        return Strip([Segment(text, Style())]).adjust_cell_length(width, Style())


def chart_columns(width: int, *, ascii_only: bool) -> int:
    """How many parts fit: two a cell, but for ASCII."""
    return max(0, width - LABEL) * (1 if ascii_only else 2)


def chart_lines(
    parts: Sequence[Part], ends: tuple[int, int], cursor: int | None, width: int, height: int, palette: Palette
) -> list[str]:
    """The rows as text."""
    rows = height - 1
    if rows < 1 or width <= LABEL:
        return []
    if not any(part is not None for part in parts):
        return [f" {palette.said('–')} no log w: mu or pi_old was not logged"]
    low = min(part[0] for part in parts if part is not None)
    high = max(part[1] for part in parts if part is not None)
    scale = Scale(min(low, 0.0, -0.1), max(high, 0.0, 0.1))
    form: Form = "ascii" if palette.ascii else "braille"
    values = np.array([(np.nan, np.nan) if part is None else part for part in parts])
    drawn = raster(Columns(values[:, 0], values[:, 1]), scale, rows, form)
    zero = min(rows - 1, int(scale.high / (scale.high - scale.low) * rows))
    line = palette.mark("rule") if palette.ascii else "⠤"
    drawn[zero] = drawn[zero].replace(" ", line)
    labels = {0: scale.high, rows - 1: scale.low}
    if zero not in labels:
        labels[zero] = 0.0
    edge = palette.mark("bar_axis")
    told = [f"{f'{labels[row]:+.1f}' if row in labels else '':>{LABEL - 1}}{edge}" for row in range(rows)]
    lines = [label + text for label, text in zip(told, drawn, strict=True)]
    return [*lines, _axis(ends, cursor, width - LABEL, palette)]


def _axis(ends: tuple[int, int], cursor: int | None, cells: int, palette: Palette) -> str:
    """The first and the last position, and the cursor's, which goes before either where they meet."""
    first, last = ends
    marks = [(0, str(first)), (cells - len(str(last)), str(last))]
    if cursor is not None and first <= cursor <= last:
        at = min(cells - 1, (cursor - first) * cells // max(1, last - first + 1))
        mark = f"{palette.mark('up')}{cursor}"
        begin = max(0, min(at, cells - len(mark)))
        marks = [each for each in marks if each[0] + len(each[1]) < begin or each[0] > begin + len(mark)]
        marks.append((begin, mark))
    line = [" "] * cells
    for begin, mark in marks:
        if begin >= 0:
            line[begin : begin + len(mark)] = mark
    return " " * LABEL + "".join(line)[:cells]
