"""The list of sessions as lines of text."""

from collector.terminal_text import terminal_safe
from console.watch.plain.table_lines import WIDE, table_lines, wrapped
from console.watch.views.trajectories import TrajectoriesView
from console.watch.views.trajectory_words import COLUMNS, list_words


def plain_trajectories(view: TrajectoriesView, width: int) -> list[str]:
    """How many there are, and a line for each row of the window."""
    lines = wrapped(list_words(view), width)
    if view.rows:
        columns = [each for each in COLUMNS if width >= WIDE or not each.wide]
        titles = [each.title for each in columns]
        rows = [[terminal_safe(each.cell(row)) for each in columns] for row in view.rows]
        lines += table_lines(titles, rows, width)
    more = view.total - view.first - len(view.rows)
    return [*lines, *([f"… {more:,} more"] if more > 0 else [])]
