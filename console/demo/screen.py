"""What the demo shows while it works: a live line on a terminal, plain lines elsewhere."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PLAIN_EVERY = 10
"""Turns between two plain lines."""


class Screen:
    """Says what goes on, and counts turns."""

    def __init__(self, *, plain: bool, turns: int) -> None:
        self._turns = turns
        self._live: Progress | None = None
        self._task: TaskID | None = None
        if not plain and sys.stdout.isatty():
            self._live = _progress()

    def __enter__(self) -> "Screen":
        if self._live is not None:
            self._live.start()
            self._task = self._live.add_task("starting", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """One line about what goes on now."""
        if self._live is None or self._task is None:
            print(text, flush=True)
        else:
            self._live.update(self._task, description=text)

    def count(self, done: int, *, right: int, sessions: int) -> None:
        """So many turns were taken, so many of them did what was asked."""
        text = f"{done} turns, {right} did what was asked, {sessions} sessions done"
        if self._live is not None and self._task is not None:
            self._live.update(self._task, description=text, total=self._turns, completed=done)
        elif done % PLAIN_EVERY == 0 or done == self._turns:
            print(text, flush=True)


def _progress() -> "Progress":
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # Markup off: a square bracket in a text is a square bracket.
    text = TextColumn("{task.description}", markup=False)
    return Progress(SpinnerColumn(), text, BarColumn(bar_width=30), TimeElapsedColumn(), transient=True)
