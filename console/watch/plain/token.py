"""A turn's tokens as lines of text."""

from collections.abc import Iterator

from collector.terminal_text import terminal_safe
from console.watch.plain.table_lines import cut, wrapped
from console.watch.views.credit_words import credit_lines
from console.watch.views.token import TokenView
from console.watch.views.token_words import columns_for, columns_text, turn_words, why_lines

NEAR = 8
"""Tokens on either side of the cursor."""


def plain_token(view: TokenView, width: int) -> list[str]:
    """The turn in a sentence, the tokens around the cursor, what that one was taught, why its weight is what it is."""
    said = [line for each in _said(view) for line in wrapped(each, width)]
    why = [line for each in why_lines(view, view.cursor) for line in wrapped(f"why: {each}", width)]
    taught = [line for each in credit_lines(view, view.cursor) for line in wrapped(f"credit: {each}", width)]
    return [*said, *(cut(line, width) for line in _table(view, width)), *taught, *why]


def _said(view: TokenView) -> Iterator[str]:
    """What there is to say of the whole turn."""
    yield f"session {terminal_safe(view.session_id)}  {turn_words(view)}"
    if view.place is not None:
        yield f"at {terminal_safe(view.place)}"
    yield from view.notes
    if view.outliers:
        shown = " ".join(map(str, view.outliers[:12])) + (" …" if len(view.outliers) > 12 else "")
        yield f"{len(view.outliers)} outlier{'s' * (len(view.outliers) != 1)} (w above 2 or below 1/2) at {shown}"


def _table(view: TokenView, width: int) -> Iterator[str]:
    if not view.rows:
        return
    columns = columns_for(view, width)
    yield f"  {columns_text(columns)}"
    for row in view.rows:
        if abs(row.position - view.cursor) > NEAR:
            continue
        cells = (
            f"{each.cell(row, view):>{each.width}}" if each.right else f"{each.cell(row, view):<{each.width}}"
            for each in columns
        )
        lead = "> " if row.position == view.cursor else "  " if row.counted else "░ "
        yield (lead + " ".join(cells)).rstrip()
