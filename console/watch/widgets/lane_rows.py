"""Signal lanes as lines of pieces: labels, curves on one step axis, onset marks, limits. Pure."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.style import Style

from console.watch.compact import compact
from console.watch.frame.row import shortened
from console.watch.views.check_number import CheckNumber
from console.watch.views.lane import Lane, Onset
from console.watch.widgets.braille import Columns, Scale, column_at, columns_of, raster, scale_of
from console.watch.widgets.palette import Curve, Palette

GUTTER = 12
"""Cells at the right for rank and onset."""
LABEL = 9
"""Cells of a signal's name."""
NARROW, WIDE = 70, 100
"""Below the first there is no plot; from the second on numbers have more room and lanes two rows."""
TICK_CELLS = 16
"""Cells between two labels of the axis, at least."""


class LanesLayout(NamedTuple):
    """The room there is, and how curves are drawn."""

    width: int
    height: int
    form: Curve = "braille"

    @property
    def number(self) -> int:
        """Cells of one number."""
        return 7 if self.width >= WIDE else 6

    @property
    def lead(self) -> int:
        """Cells of the cursor and the state's shape."""
        return 5 if self.form == "ascii" else 3

    @property
    def left(self) -> int:
        """Cells before the plot."""
        return self.lead + LABEL + 3 * (self.number + 1)

    @property
    def plot(self) -> int:
        """Cells of the plot; 0 where there is no room for one."""
        return max(0, self.width - self.left - GUTTER) if self.width >= NARROW else 0

    @property
    def columns(self) -> int:
        """Values that one row of the plot can tell apart."""
        return self.plot * (2 if self.form == "braille" else 1)


class Piece(NamedTuple):
    """Some text of one style."""

    text: str
    style: Style


class Line(NamedTuple):
    """One line, and the lane it belongs to."""

    pieces: tuple[Piece, ...]
    lane: int | None = None

    @property
    def text(self) -> str:
        """Without styles."""
        return "".join(piece.text for piece in self.pieces)


Drawn = dict[tuple[int, int, bool], list[Line]]
"""Lane, its rows and whether it is the selected one, to its lines: of one layout and of the same lanes."""


def drawn_lanes(
    lanes: Sequence[Lane],
    axis: tuple[int, int],
    selected: int,
    layout: LanesLayout,
    palette: Palette,
    drawn: Drawn | None = None,
) -> list[Line]:
    """The header and every lane; the selected one takes the rows that are left. What `drawn` has is taken from it."""
    drawn = {} if drawn is None else drawn
    if not lanes or layout.height < 1:
        return []
    lines = [_header(axis, layout, palette)]
    for index, rows in _heights(len(lanes), selected, layout):
        key = (index, rows, index == selected)
        if key not in drawn:
            made = _lane(lanes[index], axis, rows, layout, palette, chosen=index == selected)
            drawn[key] = [Line(tuple(pieces), index) for pieces in made]
        lines += drawn[key]
    return lines[: layout.height]


def _heights(count: int, selected: int, layout: LanesLayout) -> list[tuple[int, int]]:
    """Lane and its rows, for those in sight: without room for all, those around the selected one."""
    room = layout.height - 1
    if room < count:
        first = max(0, min(selected - room // 2, count - room))
        return [(index, 1) for index in range(first, first + max(0, room))]
    if not layout.plot:
        return [(index, 1) for index in range(count)]
    each = 2 if layout.width >= WIDE and room >= 2 * count + 2 else 1
    return [(index, each + (room - each * count if index == selected else 0)) for index in range(count)]


def _header(axis: tuple[int, int], layout: LanesLayout, palette: Palette) -> Line:
    """Names of the columns, the ticks of the step axis and its end."""
    number = layout.number
    titles = f"{'':{layout.lead + LABEL}}{'now':>{number}} {'worst':>{number}} {'limit':>{number}}"
    last = f" {axis[1]} now"
    if not layout.plot:
        return Line((Piece(set_cell_size(titles + "  onset", layout.width), palette.dim),))
    cells = [" "] * layout.plot
    for step in _ticks(axis, layout.plot):
        at = _cell(step, axis, layout)
        label = f"{palette.mark('tick')}{step}"
        if at + len(label) <= layout.plot and all(cell == " " for cell in cells[at : at + len(label) + 1]):
            cells[at : at + len(label)] = label
    text = f"{set_cell_size(titles, layout.left)}{''.join(cells)}{last}"
    return Line((Piece(set_cell_size(text, layout.width), palette.dim),))


def _ticks(axis: tuple[int, int], plot: int) -> list[int]:
    """Round steps, far enough apart for their labels."""
    span = max(1, axis[1] - axis[0])
    least = span / max(1, plot // TICK_CELLS)
    unit = 10 ** max(0, math.floor(math.log10(max(least, 1))))
    distance = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= least or factor == 10)
    first = -(-axis[0] // distance) * distance
    return [*range(first, axis[1] + 1, distance)]


def _cell(step: float, axis: tuple[int, int], layout: LanesLayout) -> int:
    """The cell of the plot that a step falls into."""
    per_cell = layout.columns // layout.plot
    return int(column_at(np.array([float(step)]), Scale(*axis), layout.columns)[0]) // per_cell


def _lane(
    lane: Lane, axis: tuple[int, int], rows: int, layout: LanesLayout, palette: Palette, *, chosen: bool
) -> list[list[Piece]]:
    left = [_lead(lane, layout, palette, chosen=chosen), *_below(lane, rows - 1, layout, palette)]
    if not layout.plot:
        return [[*left[0], Piece("  " + _onset_text(lane, palette), palette.plain)]]
    curve = _curve(lane, axis, rows, layout, palette)
    right = _gutter(lane, axis, rows, palette)
    return [[*left[row], *curve[row], Piece(set_cell_size(right[row], GUTTER), palette.dim)] for row in range(rows)]


def _lead(lane: Lane, layout: LanesLayout, palette: Palette, *, chosen: bool) -> list[Piece]:
    """Shape, name, newest value, worst value, limit."""
    number, style = layout.number, palette.style(lane.state)
    missing = palette.mark("missing")
    mark = "~" if lane.provisional and lane.newest is not None else ""
    beside = cell_len(lane.label) >= LABEL  # then a number of full width would touch the name
    newest = mark + compact(lane.newest, number - len(mark) - beside, missing=missing)
    worst = compact(lane.worst, number, missing=missing)
    limit = "" if lane.limit is None else ("<" if lane.below else ">") + compact(lane.limit, number - 1)
    base = palette.bold if chosen else palette.plain
    return [
        Piece(">" if chosen else " ", base),
        Piece(palette.glyph(lane.state), style),
        Piece(" " * (layout.lead - 1 - cell_len(palette.glyph(lane.state))), base),
        Piece(set_cell_size(lane.label, LABEL), base),
        Piece(f"{newest:>{number}} {worst:>{number}} {limit:>{number}} ", base),
    ]


def _below(lane: Lane, rows: int, layout: LanesLayout, palette: Palette) -> list[list[Piece]]:
    """The rows under the lead value: the word, then the parts, each with its worst."""
    if rows < 1 or not layout.plot:
        return []
    word = lane.word or palette.word(lane.state)
    missing = palette.mark("missing")
    number = layout.number
    if rows == 1:
        said = " ".join(f"{part.name} {compact(part.newest, 5, missing=missing)}" for part in lane.parts)
        return [_under(word, said if said and not lane.curve_unit else _unit(lane), lane, layout, palette)]
    own = lane.newest_step is None and lane.verdict is not None
    lines = [_under(word, _unit(lane) if own else _worst_is(lane), lane, layout, palette)]
    for part in lane.parts:
        newest, worst = (compact(each, number, missing=missing) for each in (part.newest, part.worst))
        text = f"{'':{layout.lead}}{part.name:<{LABEL}}{newest:>{number}} {worst:>{number}}"
        lines.append([Piece(set_cell_size(text, layout.left), palette.plain)])
    if lane.verdict is not None and not own:
        said = shortened(_verdict(lane, lane.verdict, layout), layout.left - 1)
        lines.append([Piece(set_cell_size(said, layout.left), palette.plain)])
    blank = [Piece(" " * layout.left, palette.plain)]
    return [*lines[:rows], *[blank] * max(0, rows - len(lines))]


def _unit(lane: Lane) -> str:
    """The unit, and what the check made of it, or what the lead value is of where that is the check's own."""
    if lane.verdict is None:
        return _worst_is(lane)
    if lane.newest_step is None:
        return f"{lane.unit} {lane.verdict.of}"
    return f"{lane.unit}; {compact(lane.verdict.value, 5)} {lane.verdict.of}"


def _worst_is(lane: Lane) -> str:
    return f"{lane.unit}; worst is {lane.worst_word}" if lane.unit else ""


def _verdict(lane: Lane, verdict: CheckNumber, layout: LanesLayout) -> str:
    """What the check graded; with its limit, where that is not the lead value's."""
    limit = ""
    if lane.limit is None and verdict.warn is not None:
        limit = f" {'<' if verdict.below else '>'}{compact(verdict.warn, 4)}"
    value = f"{compact(verdict.value, layout.number):>{layout.number}}"
    return f"{'':{layout.lead}}{'check':<{LABEL}}{value}{limit} {verdict.of}"


def _under(word: str, said: str, lane: Lane, layout: LanesLayout, palette: Palette) -> list[Piece]:
    lead = f"   {word} "
    room = layout.left - len(lead)
    said = set_cell_size(shortened(said, room - 1), room - 1)
    return [Piece(lead, palette.style(lane.state)), Piece(said + " ", palette.dim)]


def _onset_text(lane: Lane, palette: Palette) -> str:
    """Rank and step; `=` before the rank of a tie."""
    onset = lane.onset
    if onset is None:
        said = "n/d" if lane.newest is None else "steady" if lane.baseline else "too few"
        return f"{palette.mark('missing')} {said}"
    rank = f"{'=' if onset.tie else '#'}{onset.rank}"
    exact = f"{rank} @{onset.last}"
    if onset.first == onset.last:
        return exact
    dash = "-" if palette.ascii else "–"
    between = f"{rank} @{onset.first}{dash}{onset.last}"
    return between if len(between) < GUTTER else f"{rank} <={onset.last}"


def _gutter(lane: Lane, axis: tuple[int, int], rows: int, palette: Palette) -> list[str]:
    lines = [" " + _onset_text(lane, palette), *[""] * (rows - 1)]
    if rows > 1 and lane.onset is not None:
        lines[1] = f"   {lane.onset.last - axis[1]} st"
    if rows > 3 and any(value is not None for value in lane.values):
        scale = _scale(lane)
        if _is_flat(lane):
            lines[2] = f" y={compact(lane.band[0] if lane.band else None)}"
            return lines
        lines[2], lines[-1] = f" y{_le(palette)}{compact(scale.high)}", f" y{_ge(palette)}{compact(scale.low)}"
    return lines


def _le(palette: Palette) -> str:
    return "<=" if palette.ascii else "≤"


def _ge(palette: Palette) -> str:
    return ">=" if palette.ascii else "≥"


def _scale(lane: Lane) -> Scale:
    """The range of the values joined with the baseline's band: noise then looks like noise."""
    return scale_of(lane.values, None if lane.band is None else Scale(*lane.band))


def _is_flat(lane: Lane) -> bool:
    """Whether curve and band are one value: there is no scale to be told then."""
    known = {value for value in lane.values if value is not None}
    return lane.band is not None and known == {*lane.band}


def _curve(lane: Lane, axis: tuple[int, int], rows: int, layout: LanesLayout, palette: Palette) -> list[list[Piece]]:
    scale = _scale(lane)
    columns: Columns = columns_of(lane.steps, lane.values, Scale(*axis), layout.columns)
    ink = palette.dim if lane.provisional else palette.plain
    cells = [[(letter, ink) for letter in row] for row in raster(columns, scale, rows, layout.form)]
    if rows > 1 and any(value is not None for value in lane.values):
        _draw_limit(cells, lane, scale, palette)
    if lane.onset is not None:
        _draw_onset(cells, lane, lane.onset, axis, layout, palette)
    return [_joined(row) for row in cells]


def _draw_limit(cells: list[list[tuple[str, Style]]], lane: Lane, scale: Scale, palette: Palette) -> None:
    """A line where nothing else is drawn."""
    if lane.limit is None or lane.curve_unit or not scale.low <= lane.limit <= scale.high:
        return
    share = (scale.high - lane.limit) / (scale.high - scale.low)
    row = cells[min(len(cells) - 1, int(share * len(cells)))]
    for at, (letter, _) in enumerate(row):
        if letter == " ":
            row[at] = (palette.mark("limit"), palette.dim)


def _draw_onset(
    cells: list[list[tuple[str, Style]]],
    lane: Lane,
    onset: Onset,
    axis: tuple[int, int],
    layout: LanesLayout,
    palette: Palette,
) -> None:
    """A bar at an exact onset, brackets around the interval of another, as far as they are on the axis."""
    style = palette.style(lane.state)
    if onset.last < axis[0] or onset.first > axis[1]:
        return
    first, last = (_cell(max(axis[0], min(axis[1], step)), axis, layout) for step in (onset.first, onset.last))
    if onset.first == onset.last:
        for row in cells:
            row[last] = (palette.mark("onset"), style)
        return
    begin, between, end = palette.mark("interval")
    marks = [begin, *[between] * (last - first - 1), end] if last > first else [palette.mark("interval_cell")]
    for at, letter in enumerate(marks):
        cells[0][first + at] = (letter, style)


def _joined(row: list[tuple[str, Style]]) -> list[Piece]:
    """Neighbours of one style as one piece."""
    pieces: list[Piece] = []
    text, style = "", row[0][1] if row else Style()
    for letter, its in row:
        if its is not style:
            pieces.append(Piece(text, style))
            text, style = "", its
        text += letter
    return [*pieces, Piece(text, style)] if text else pieces
