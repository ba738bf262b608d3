"""How much of a long log was read, while one of its screens waits to be printed."""

import time
from collections.abc import Callable
from typing import TextIO

from console.watch.log_part import LogPart

PLAIN_EVERY_S = 10.0
"""Between two plain lines; what is read sooner has none."""


class PrintProgress:
    """Says it on `out`: a terminal is drawn again and keeps nothing of it, elsewhere there is a line now and then."""

    def __init__(self, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._said_at = clock()
        self._said = ""

    def __enter__(self) -> "PrintProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._out.isatty():
            self._draw("")

    def seen(self, part: LogPart | None) -> None:
        """What of a log is read by now; None where that is all of it."""
        if part is None:
            return
        if self._out.isatty():
            self._draw(part.reading)
        elif self._clock() - self._said_at >= PLAIN_EVERY_S:
            self._said_at = self._clock()
            print(part.reading, file=self._out, flush=True)

    def _draw(self, text: str) -> None:
        """Over what stood there; nothing leaves the line as it was."""
        if text != self._said:
            line, self._said = text.ljust(len(self._said)), text
            print(f"\r{line}", end="" if text else "\r", file=self._out, flush=True)
