"""How long work is stopped: the first signal asks for an end between two steps, a later one forces it."""

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

TWICE_S = 1.0
"""Within this time a second signal is the first one, come twice: wrappers pass on what the terminal sent already."""


@contextmanager
def stopping() -> Generator[threading.Event]:
    """The event that the first SIGINT or SIGTERM sets; a later one interrupts whatever is going on."""
    stop = threading.Event()
    asked_at: list[float] = []

    def asked(_: int, __: FrameType | None) -> None:
        if asked_at and time.monotonic() - asked_at[0] > TWICE_S:
            raise KeyboardInterrupt
        asked_at.append(time.monotonic())
        stop.set()

    before = {each: signal.signal(each, asked) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
