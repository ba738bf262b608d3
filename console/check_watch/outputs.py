"""How a watched store is shown: a view on a terminal, a line per change elsewhere, or JSON lines."""

import sys
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from checks.alerting.delivery import Counts
from checks.alerting.evaluator import Evaluated
from checks.readers.store_window import Window
from collector.terminal_text import terminal_safe
from console.check_report.statuses import tally
from console.check_watch.change_lines import change_lines, change_text, json_line, window_json

SHOWN_CHANGES, SHOWN_PROBLEMS = 6, 3
"""Lines of what changed and of what went wrong on a terminal."""


class Round(NamedTuple):
    """One evaluation and how its records and notices fare."""

    evaluated: Evaluated
    delivery: Counts
    unwritten: int
    """Records that the store could not take yet."""


class Shown(Protocol):
    """Where evaluations appear."""

    def evaluation(self, this: Round) -> None:
        """Shows one."""
        ...

    def failure(self, at: datetime, reason: str) -> None:
        """Says why there was none."""
        ...

    def problem(self, line: str) -> None:
        """Says what went wrong beside it; called from any thread."""
        ...


@contextmanager
def shown_as(form: str, window: Window) -> Generator[Shown]:
    """As JSON, as a view where stdout is a terminal, else as lines."""
    if form == "json":
        yield JsonLines(window)
    elif sys.stdout.isatty():
        with Screen(window) as screen:
            yield screen
    else:
        yield PlainLines(window)


class JsonLines:
    """One JSON object per evaluation."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def evaluation(self, this: Round) -> None:
        """The whole of it."""
        self._write(json_line(this.evaluated, self._window, this.delivery, this.unwritten))

    def failure(self, at: datetime, reason: str) -> None:
        """An object with `error`."""
        failed = {"at": at, "window": window_json(self._window), "error": reason}
        self._write(msgspec.json.encode(failed) + b"\n")

    def problem(self, line: str) -> None:
        """A line on stderr."""
        _complain(line)

    def _write(self, line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


class PlainLines:
    """A line per change."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tally: str | None = None
        self._failure: str | None = None

    def evaluation(self, this: Round) -> None:
        """What changed."""
        self._failure = None
        for line in change_lines(this.evaluated, self._window, tally_before=self._tally):
            sys.stdout.buffer.write(line.encode(sys.stdout.encoding, "backslashreplace") + b"\n")
        sys.stdout.buffer.flush()
        self._tally = tally(this.evaluated.report.findings)

    def failure(self, at: datetime, reason: str) -> None:
        """A line on stderr, once while the reason is the same."""
        if reason != self._failure:
            _complain(f"{at:%H:%M:%SZ}  not evaluated: {reason}")
        self._failure = reason

    def problem(self, line: str) -> None:
        """A line on stderr."""
        _complain(line)


class Screen:
    """A compact view that is drawn anew."""

    def __init__(self, window: Window) -> None:
        from rich.console import Console
        from rich.live import Live

        self._window = window
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._changes: deque[str] = deque(maxlen=SHOWN_CHANGES)
        self._problems: deque[str] = deque(maxlen=SHOWN_PROBLEMS)

    def __enter__(self) -> "Screen":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def evaluation(self, this: Round) -> None:
        """The view, with the latest changes."""
        from console.check_watch.view import view

        evaluated = this.evaluated
        for transition in evaluated.transitions:
            if transition.change != "moved":
                self._changes.append(f"{evaluated.at:%H:%M:%SZ}  {change_text(transition, self._window)}")
        drawn = view(
            evaluated,
            self._window,
            changes=[*self._changes],
            problems=[*self._problems],
            delivery=this.delivery,
            ascii_only=not self._console.encoding.lower().startswith("utf"),
        )
        self._live.update(drawn, refresh=True)

    def failure(self, at: datetime, reason: str) -> None:
        """Above the view."""
        self.problem(f"{at:%H:%M:%SZ}  not evaluated: {reason}")
        self._live.console.print(terminal_safe(self._problems[-1]))

    def problem(self, line: str) -> None:
        """Below the next view."""
        self._problems.append(line)


def _complain(line: str) -> None:
    """A line on stderr, if anybody still reads it."""
    with suppress(BrokenPipeError):
        print(terminal_safe(line), file=sys.stderr, flush=True)
