"""Control sequences in foreign text are shown, not obeyed."""

import logging
import sys

from console.log_lines import TerminalFormatter


def test_a_log_line_cannot_move_the_cursor() -> None:
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "engine said %s", ("\x1b[31mred",), None)
    assert TerminalFormatter("%(message)s").format(record) == "engine said \\x1b[31mred"


def test_a_message_cannot_forge_a_line_and_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("bad")
    except ValueError:
        error = sys.exc_info()
    record = logging.LogRecord("n", logging.ERROR, "f", 1, "said %s", ("x\n2026 ERROR y\r\u2028z",), error)
    first, *rest = TerminalFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert first == "ERROR said x\\n2026 ERROR y\\r\\u2028z"
    assert (rest[0], rest[-1]) == ("Traceback (most recent call last):", "ValueError: bad")
