"""How many turns of a log have been read: a bar on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 1.0
"""No bar for what is done sooner."""
PLAIN_EVERY_S = 10.0
"""Between two plain lines; what is done sooner has none."""


class CheckProgress:
    """Counts turns and shows the count once it takes long. Nothing of it stays on a terminal."""

    def __init__(self, out: TextIO, *, expected: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._expected = expected
        self._clock = clock
        self._started = self._said_at = clock()
        self._turns = 0
        self._bar: Progress | None = None

    def __enter__(self) -> "CheckProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, turns: int) -> None:
        """So many more turns were read."""
        self._turns += turns
        now = self._clock()
        if self._out.isatty():
            if now - self._started >= QUIET_S:
                self._draw()
        elif now - self._said_at >= PLAIN_EVERY_S:
            self._said_at = now
            of = f" of {self._expected:,}" if self._expected else ""
            print(f"{self._turns:,}{of} turns read, {now - self._started:.0f} s", file=self._out, flush=True)

    def _draw(self) -> None:
        if self._bar is None:
            self._bar = _begun(self._out, self._expected)
        self._bar.update(self._bar.task_ids[0], completed=self._turns)


def _begun(out: TextIO, expected: int | None) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    count = "{task.completed:,.0f}" + (" of {task.total:,.0f}" if expected else "") + " turns read"
    columns = [TextColumn(count), BarColumn(), TimeElapsedColumn(), *([TimeRemainingColumn()] if expected else [])]
    bar = Progress(*columns, console=Console(file=out), transient=True)
    bar.add_task("", total=expected)
    bar.start()
    return bar
