"""A retokenization difference as lines of text."""

from console.watch.plain.table_lines import table_lines, wrapped
from console.watch.views.diff_words import SPAN_TITLES, retok_words, span_cells
from console.watch.views.retok_diff import RetokDiffView


def plain_retok_diff(view: RetokDiffView, width: int) -> list[str]:
    """How much came back, and a line for each span."""
    lines = wrapped(retok_words(view), width)
    if view.rows:
        lines += table_lines(SPAN_TITLES, [span_cells(row) for row in view.rows], width)
    more = view.total - view.first - len(view.rows)
    return [*lines, *([f"… {more:,} more spans"] if more > 0 else [])]
