"""Log lines of the command line."""

import logging

from collector.terminal_text import terminal_safe


class TerminalFormatter(logging.Formatter):
    """Log lines that are safe on a terminal, whatever went into them: one record is one line, save its traceback."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without a traceback, in which a line break is spelled out too."""
        return terminal_safe(super().formatMessage(record), keep="\t")

    def format(self, record: logging.LogRecord) -> str:
        """The line, with control characters spelled out."""
        return terminal_safe(super().format(record), keep="\n\t")
