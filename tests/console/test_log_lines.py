"""Control sequences in foreign text are shown, not obeyed."""

import logging

from console.log_lines import TerminalFormatter


def test_a_log_line_cannot_move_the_cursor() -> None:
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "engine said %s", ("\x1b[31mred",), None)
    assert TerminalFormatter("%(message)s").format(record) == "engine said \\x1b[31mred"
