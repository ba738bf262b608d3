"""A plan's sheet as text for a terminal: numbers with units, notes wrapped beside them."""

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from trainer.plan.sheet import Column, Quantity, Section, Sheet, Table

LABEL_WIDTH = 29
VALUE_WIDTH = 21
NARROWEST_NOTE = 16
"""Where less is left beside a value, its note stands below."""
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
_NUMBERED = {"count": "", "tokens": "tokens", "steps": "steps", "FLOPs/byte": "FLOPs/byte", "tokens/s": "tokens/s"}


def render_sheet(sheet: Sheet, *, width: int) -> str:
    """The sheet, no line longer than `width`."""
    lines = [*_wrapped(sheet.title, width), *_wrapped(f"Verdict: {sheet.verdict}.", width)]
    for section in sheet.sections:
        lines += ["", section.title, *_section(section, width)]
    lines += ["", "Assumptions"]
    for assumption in sheet.assumptions:
        lines += textwrap.wrap(assumption, width, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def render_value(value: float | int | str | None, unit: str) -> str:
    """A value with its unit, to about three digits; small whole numbers exactly."""
    match value, unit:
        case None, _:
            return "n/a"
        case str(), _:
            return value
        case _, "bytes":
            return _bytes(value)
        case _, "FLOPs":
            return f"{value:.3g} FLOPs".replace("e+", "e")
        case _, "s" | "device s":
            return f"{_seconds(value)}{' x devices' if unit == 'device s' else ''}"
        case _, "share":
            return f"{100 * value:.1f} %"
        case _, "times":
            return f"{_plain(value)} x"
        case _:
            return f"{_plain(value)} {_NUMBERED[unit]}".rstrip()


def _section(section: Section, width: int) -> list[str]:
    lines = [line for quantity in section.quantities for line in _quantity(quantity, width)]
    if section.table:
        lines += _table(section.table, width)
    return lines


def _quantity(quantity: Quantity, width: int) -> list[str]:
    head = f"  {quantity.label:<{LABEL_WIDTH}}{render_value(quantity.value, quantity.unit):>{VALUE_WIDTH}}"
    if not quantity.note:
        return [head.rstrip()]
    if width - len(head) - 2 < NARROWEST_NOTE:
        return [
            head.rstrip(),
            *textwrap.wrap(quantity.note, width, initial_indent="      ", subsequent_indent="      "),
        ]
    notes = textwrap.wrap(quantity.note, width - len(head) - 2)
    return [f"{head}  {notes[0]}", *(" " * (len(head) + 2) + note for note in notes[1:])]


def _table(table: Table, width: int) -> list[str]:
    cells = [[column.label for column in table.columns]]
    cells += [
        [_cell_text(value, column) for value, column in zip(row, table.columns, strict=True)] for row in table.rows
    ]
    widths = _widths(cells, width)
    gap = 3 if sum(widths) + 3 * len(widths) <= width else 2
    return [line for row in cells for line in _row(row, table.columns, widths, " " * gap)]


def _widths(cells: list[list[str]], width: int) -> list[int]:
    """As wide as the longest cell; where the rows are too long then, the widest columns give way, down to a word."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in zip(*cells, strict=True)]
    while sum(widths) + 2 * len(widths) > width and widths != words:
        at = max(range(len(widths)), key=lambda at: (widths[at] > words[at], widths[at]))
        widths[at] -= 1
    return widths


def _row(row: list[str], columns: Sequence[Column], widths: list[int], gap: str) -> list[str]:
    """A row's lines: more than one where a cell is wider than its column."""
    pieces = [textwrap.wrap(text, width) or [""] for text, width in zip(row, widths, strict=True)]
    return [
        ("  " + gap.join(_cell(*each) for each in zip(line, columns, widths, strict=True))).rstrip()
        for line in zip_longest(*pieces, fillvalue="")
    ]


def _cell_text(value: float | int | str, column: Column) -> str:
    """Narrower than in a line: decimal bytes only."""
    return (
        render_value(value, column.unit).partition(" (")[0]
        if column.unit == "bytes"
        else render_value(value, column.unit)
    )


def _cell(text: str, column: Column, width: int) -> str:
    return f"{text:<{width}}" if column.unit == "" else f"{text:>{width}}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ")


def _plain(value: float) -> str:
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if abs(value) >= 1e9:
        return f"{value / 1e9:,.2f} billion"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def _bytes(value: float) -> str:
    if abs(value) < 1e6:
        return f"{value:,.0f} bytes"
    scale, prefix = next(pair for pair in _PREFIXES if abs(value) >= pair[0])
    binary = 1024.0 ** (round(len(f"{scale:.0f}") / 3))
    return f"{_digits(value / scale)} {prefix}B ({_digits(value / binary)} {prefix}iB)"


def _seconds(value: float) -> str:
    if 0 < value < 1e-3:
        return f"{1e6 * value:.3g} us"
    if 0 < value < 1:
        return f"{1e3 * value:.3g} ms"
    return f"{_digits(value)} s"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:#.4g}"
