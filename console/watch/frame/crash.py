"""What the console says when it falls over: the error, where, and its traceback without values."""

import traceback

from collector.terminal_text import terminal_safe


def crash_text(error: BaseException, where: str) -> str:
    """For standard error, after the terminal is itself again. Values of variables may be texts of models: none."""
    lines = "".join(traceback.format_exception(error))
    said = terminal_safe(f"{type(error).__name__}: {error}")
    return f"{terminal_safe(lines, keep=chr(10))}roundhouse watch: the console ended on the screen {where}: {said}"
