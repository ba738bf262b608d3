"""The thread that looks at what is watched, and keeps trying where that fails."""

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from collector.errors import UserError

if TYPE_CHECKING:
    from console.watch.held import Held
    from console.watch.source.source import Source

RETRY_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds to the next try, after one failure and more; the last holds for all further ones."""
BUSY_SHARE = 0.005
"""Most of a core that looking may take: a look is followed by a rest of the processor time that the console took
meanwhile, over this share,"""
MOST_REST_S = 5.0
"""but never by a longer one than this."""
FIRST_LOOKS = 2
IDLE_LOOKS, IDLE_FACTOR = 40, 4
"""After so many looks at which nothing was new, the next ones are so many times rarer."""
NOTICED_LOOK_S = 5.0
"""Where the source signals what is new, it is looked at after so long all the same."""


class Reading(NamedTuple):
    """What was read last, and how the last try went."""

    held: "Held | None" = None
    error: str | None = None
    retry_at: datetime | None = None


class ReadingThread:
    """Opens the source and polls it; a failure is told, and tried again after a while."""

    def __init__(
        self,
        open_source: Callable[[], "Source"],
        tell: Callable[[Reading], None],
        *,
        interval_s: float,
        retry_s: Sequence[float],
    ) -> None:
        self._open_source = open_source
        self._tell = tell
        self._interval_s = interval_s
        self._retry_s = retry_s
        self._closing = threading.Event()
        self._waking: tuple[int, int] | None = None
        self._waking_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="watch-reading", daemon=True)
        self._reading = Reading()
        self._unchanged = 0
        self._looks = 0
        self.source: Source | None = None
        """What is open; None before it is, and after it failed."""

    def start(self) -> None:
        """Begins."""
        self._waking = os.pipe()
        self._thread.start()

    def close(self) -> None:
        """Ends the thread at its next rest."""
        self._closing.set()
        with self._waking_lock:
            if self._waking is not None:
                os.write(self._waking[1], b".")

    def _run(self) -> None:
        failures = 0
        try:
            while not self._closing.is_set():
                started_s = time.process_time()
                try:
                    self._look()
                    failures = 0
                except (UserError, OSError) as error:
                    self._let_go()
                    wait_s = self._retry_s[min(failures, len(self._retry_s) - 1)]
                    failures += 1
                    retry_at = datetime.now(UTC) + timedelta(seconds=wait_s)
                    self._told(Reading(self._reading.held, " ".join(str(error).split()), retry_at))
                    self._closing.wait(wait_s)
                    continue
                self._looks += 1
                # The first looks load what they need, and read everything that there is.
                self._rest(time.process_time() - started_s if self._looks > FIRST_LOOKS else 0.0)
        except BaseException as error:
            # A fault of ours ends the thread; without this the screens would stand still and say that they are live.
            self._told(Reading(self._reading.held, f"reading ended, which is a fault of the console: {error!r}"))
            raise
        finally:
            self._let_go()
            with self._waking_lock:
                pipe, self._waking = self._waking, None
            for end in pipe or ():
                os.close(end)

    def _rest(self, took_s: float) -> None:
        """Until the next look: for as long as the last ones cost, and then until there may be something new."""
        signals = () if self.source is None else self.source.signals()
        rarer = IDLE_FACTOR if self._unchanged >= IDLE_LOOKS and not signals else 1
        self._closing.wait(min(max(self._interval_s * rarer, took_s / BUSY_SHARE), MOST_REST_S))
        if signals and self._unchanged and self._waking is not None:
            select.select([self._waking[0], *signals], [], [], NOTICED_LOOK_S)

    def _look(self) -> None:
        if self.source is None:
            self.source = self._open_source()
        held = self.source.poll()
        self._unchanged = 0 if held is not None else self._unchanged + 1
        self._told(Reading(self._reading.held if held is None else held))

    def _told(self, reading: Reading) -> None:
        self._reading = reading
        if not self._closing.is_set():
            self._tell(reading)

    def _let_go(self) -> None:
        source, self.source = self.source, None
        if source is not None:
            source.close()
