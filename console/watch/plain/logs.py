"""The log as lines."""

from collector.terminal_text import terminal_safe
from console.watch.views.logs import LogLine, LogsView

LETTERS = {"info": "I", "warn": "W", "fail": "F"}


def plain_logs(view: LogsView, width: int) -> list[str]:
    """A head line, and a line for each; `width` does not cut: a log is searched."""
    del width
    of_part = "" if view.newest_turns is None else "newest part: "
    head = f"{of_part}{view.total} lines of {view.lines}, {view.warns} warn, {view.fails} fail"
    return [
        head,
        *(f"{when(line)} {LETTERS[line.level]} {place(line)}{terminal_safe(line.text)}" for line in view.rows),
    ]


def when(line: LogLine) -> str:
    """Its date and time in UTC."""
    return "----------T--:--:--Z" if line.at is None else f"{line.at:%Y-%m-%dT%H:%M:%SZ}"


def place(line: LogLine) -> str:
    """What it is about: source, adapter, version, session and turn, as far as they are known."""
    words = [line.source]
    if line.adapter is not None:
        words.append(line.adapter if line.version is None else f"{line.adapter}@{line.version}")
    if line.session_id is not None:
        words.append(line.session_id if line.turn is None else f"{line.session_id} turn {line.turn}")
    return terminal_safe(" ".join(words)) + ": "
