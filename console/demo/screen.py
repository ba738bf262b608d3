"""What the demo shows while it works: a live line on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

PLAIN_EVERY = 10
"""Turns between two plain lines."""
LIVE_CELLS = 58
"""Longest live line. A terminal that is made narrower breaks a longer one in two, and half of it would stay."""


class Screen:
    """Says what goes on, and counts turns."""

    def __init__(self, *, plain: bool, turns: int) -> None:
        self._turns = turns
        self._what = ""
        self._started = time.monotonic()
        self._text = "starting"
        self._stopping = False
        self._live = _live(self._line) if not plain and sys.stdout.isatty() else None

    def __enter__(self) -> "Screen":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """One line about what goes on now."""
        self._text = text
        if self._live is None:
            print(text, flush=True)

    def note(self, text: str) -> None:
        """One line that stays, above what goes on now."""
        if self._live is None:
            print(text, flush=True)
        else:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin_count(self, turns: int, what: str) -> None:
        """From now on the turns of something are counted, from none."""
        self._turns, self._what = turns, f"{what}: "
        self.say(f"{self._what}0 of {turns} turns")

    def count(self, done: int, *, right: int, sessions: int) -> None:
        """So many turns were taken, so many of them did what was asked."""
        if self._stopping:
            return
        if self._live is not None:
            self._text = f"{self._what}{done} of {self._turns} turns, {right} as asked, {sessions} sessions done"
        elif done % PLAIN_EVERY == 0 or done == self._turns:
            print(f"{self._what}{done} turns, {right} did what was asked, {sessions} sessions done", flush=True)

    def stopping(self) -> None:
        """Says that it was told to stop; no count is shown after that."""
        self._stopping = True
        self.say("stopping: replies under way are recorded first")
        if self._live is not None:
            self._live.refresh()

    def _line(self) -> "Text":
        from rich.text import Text

        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        line = Text(f"{minutes}:{seconds:02}  {self._text}", no_wrap=True, overflow="ellipsis")
        line.truncate(LIVE_CELLS, overflow="ellipsis")
        return line


def _live(line: Callable[[], "Text"]) -> "Live":
    from rich.console import Console
    from rich.live import Live

    return Live(get_renderable=line, console=Console(), refresh_per_second=4, transient=True)
