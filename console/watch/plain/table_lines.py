"""A small table as lines of text: columns as wide as what is in them, the whole cut to a width."""

import re
import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells, set_cell_size

WIDE = 110
"""Columns from which on a list shows all there is."""
_NUMBER_LIKE = frozenset("0123456789+-.–,ekM% ")


def table_lines(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A header and a line for each row; columns of numbers stand at the right."""
    columns = [[title, *(row[at] for row in rows)] for at, title in enumerate(titles)]
    sizes = [max(map(cell_len, column)) for column in columns]
    right = [all(set(cell) <= _NUMBER_LIKE for cell in column[1:]) and len(column) > 1 for column in columns]
    lines: list[str] = []
    for row in (titles, *rows):
        cells = [_placed(cell, size, at_right=flag) for cell, size, flag in zip(row, sizes, right, strict=True)]
        lines.append(cut("  ".join(cells).rstrip(), width))
    return lines


def cut(line: str, width: int) -> str:
    """A line no wider than a width, an ellipsis at its end where something is left out."""
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)).rstrip() + "…"


def in_cells(text: str, width: int) -> list[str]:
    """A text in lines of so many cells at most, broken between words; a word that is longer is broken inside."""
    lines: list[str] = []
    line = ""
    for word in re.findall(r"\s*\S+", text):
        if cell_len(line) + cell_len(word) <= width:
            line += word
            continue
        if line:
            lines.append(line)
        *whole, line = chop_cells(word.lstrip(), width)
        lines += whole
    return [*lines, line] if line else lines


def wrapped(line: str, width: int) -> list[str]:
    """A sentence in as many lines as it takes, broken between words."""
    return textwrap.wrap(line, max(20, width), subsequent_indent="  ", break_on_hyphens=False) or [""]


def _placed(text: str, size: int, *, at_right: bool) -> str:
    blank = " " * (size - cell_len(text))
    return blank + text if at_right else text + blank
