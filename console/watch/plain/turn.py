"""A session's turns as lines of text."""

from collector.terminal_text import terminal_safe
from console.watch.plain.table_lines import WIDE, cut, table_lines, wrapped
from console.watch.views.turn import TurnsView
from console.watch.views.turn_words import COLUMNS, message_lines, session_words


def plain_turn(view: TurnsView, width: int) -> list[str]:
    """The session in a sentence, a line for each turn, and the messages of the selected one."""
    lines = wrapped(f"session {terminal_safe(view.session_id)}: {session_words(view)}", width)
    if not view.rows:
        return lines
    columns = [each for each in COLUMNS if width >= WIDE or not each.wide]
    rows = [
        ["> " if row.turn == view.selected else "  ", *(terminal_safe(each.cell(row)) for each in columns)]
        for row in view.rows
    ]
    lines += table_lines(["  ", *(each.title for each in columns)], rows, width)
    said = list(message_lines(view))
    lines += [f"messages of turn {view.selected}"] if said else []
    return [*lines, *(cut(f"{role:<16} {text}".rstrip(), width) for role, text in said)]
