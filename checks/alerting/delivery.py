"""Delivery of notices to a webhook or a command: in a thread of its own, bounded, and never waited for.

This and `checks.readers` are where the package does input and output.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from checks.alerting.config import DeliveryConfig


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the notices so far."""

    delivered: int = 0
    failed: int = 0
    """Given up, after every try."""
    dropped: int = 0
    """Not tried: too many were waiting."""
    waiting: int = 0
    """Not answered yet."""


class Target(Protocol):
    """Where a notice goes."""

    def send(self, body: bytes, wait: Callable[[float], bool]) -> str | None:
        """Sends it; None when it arrived, else why not. `wait` waits so many seconds, and is true at the end."""
        ...


class Delivery:
    """A bounded queue in front of some targets."""

    def __init__(self, targets: Mapping[str, Target], *, queue_notices: int, say: Callable[[str], None]) -> None:
        """`say` is told of each failure, in the delivering thread; the line holds no secret."""
        self._targets = targets
        self._say = say
        self._queue: queue.Queue[tuple[str, bytes] | None] = queue.Queue(queue_notices)
        self._ending = threading.Event()
        self._counting = threading.Lock()
        self._counts = {"delivered": 0, "failed": 0, "dropped": 0, "waiting": 0}
        self._thread = threading.Thread(target=self._run, name="alert-delivery", daemon=True)
        self._thread.start()

    def put(self, notice: Mapping[str, object]) -> None:
        """Queues a notice for every target; with a full queue it is dropped and counted."""
        body = msgspec.json.encode(notice)
        for name in self._targets:
            self._count(waiting=1)
            try:
                self._queue.put_nowait((name, body))
            except queue.Full:
                self._count(waiting=-1, dropped=1)
                self._say(f"{name}: a notice was dropped, {self._queue.maxsize} are waiting already")

    @property
    def counts(self) -> Counts:
        """What became of the notices so far."""
        with self._counting:
            return Counts(**self._counts)

    def close(self, *, most_s: float) -> Counts:
        """Sends what waits for at most so long; says what then was not sent."""
        until = time.monotonic() + most_s
        while self.counts.waiting and time.monotonic() < until:
            time.sleep(0.01)
        self._ending.set()
        self._thread.join(most_s)
        counts = self.counts
        if counts.waiting:
            self._say(f"{counts.waiting} notices were not delivered before the end")
        return counts

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                job = self._queue.get(timeout=0.2)
            except queue.Empty:
                continue
            assert job is not None
            name, body = job
            failure = self._targets[name].send(body, self._ending.wait)
            if failure is None:
                self._count(waiting=-1, delivered=1)
            else:
                self._count(waiting=-1, failed=1)
                self._say(f"{name}: {failure}")

    def _count(self, **changes: int) -> None:
        with self._counting:
            for name, change in changes.items():
                self._counts[name] += change


def targets_of(config: DeliveryConfig) -> dict[str, Target]:
    """The targets that are configured, by the name they are spoken of."""
    from checks.alerting.command import Command
    from checks.alerting.webhook import Webhook

    targets: dict[str, Target] = {}
    if config.webhook is not None:
        targets["webhook"] = Webhook(config)
    if config.command:
        targets["command"] = Command(config)
    return targets
