"""The trainer's `step` spans of a cycle, one after another without a gap; `trainer/cycle/loop.py` writes its waits."""

from collections.abc import Callable, Sequence
from datetime import datetime

from collector.records import Record, Span


class Spans:
    """A step's span lasts until the next one's begins: resuming belongs to the first, saving to the last."""

    def __init__(self, write: Callable[[Record], None], begun: datetime) -> None:
        self._write = write
        self._from = begun
        self._open: tuple[datetime, Sequence[str]] | None = None

    def step(self, adapters: Sequence[str], ended: datetime) -> None:
        """A step of some adapters has ended."""
        self._close()
        self._open = (ended, adapters)

    def end(self, ended: datetime) -> None:
        """Nothing more comes; the last step lasts until now."""
        if self._open is not None:
            self._open = (ended, self._open[1])
            self._close()

    def _close(self) -> None:
        if self._open is None:
            return
        ended, adapters = self._open
        for adapter in adapters:
            self._write(Span(role="trainer", kind="step", from_=self._from, to=ended, adapter=adapter))
        self._from, self._open = ended, None
