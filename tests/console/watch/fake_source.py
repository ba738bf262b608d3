"""A source that tests drive by hand: what it holds, how long a look takes, and when it fails."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import polars as pl

from checks.log import Log, MemoryLog
from collector.errors import StoreError
from console.watch.builder import Built, Failed
from console.watch.held import Held, Origin
from console.watch.holding import hold
from console.watch.status import Status
from console.watch.topic import Ask, OpenLog, Topic, View

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Count(View, frozen=True, kw_only=True):
    """How many steps are held."""

    steps: int


def count(held: Held, ask: Ask, log: OpenLog) -> Count:
    """Counts."""
    return Count(steps=held.steps.height)


COUNT: Topic[Ask] = Topic("count", count)


def steps(number: int, revision: int | None = None) -> Held:
    """So many steps, one a second."""
    rows = {
        "adapter": ["bot"] * number,
        "step": range(1, number + 1),
        "at": [AT + timedelta(seconds=second) for second in range(number)],
    }
    source = Origin(path="store", format="store")
    frame = pl.DataFrame(rows, schema_overrides={"adapter": pl.String, "at": pl.Datetime("us", "UTC")})
    return hold({"steps": frame}, source=source, revision=number if revision is None else revision)


class FakeSource:
    """Gives what it is told to."""

    def __init__(self, held: Held | None = None) -> None:
        self.next = held
        self.error: str | None = None
        self.polled = threading.Semaphore(0)
        """Released at the end of each look."""
        self.looking = threading.Event()
        self.go_on = threading.Event()
        """A look waits for it."""
        self.go_on.set()
        self.closed = False
        self.descriptors: tuple[int, ...] = ()

    def poll(self) -> Held | None:
        """The next thing to hold, once."""
        self.looking.set()
        try:
            self.go_on.wait(60)
            if self.error is not None:
                raise StoreError(self.error)
            held, self.next = self.next, None
            return held
        finally:
            self.polled.release()

    def signals(self) -> Sequence[int]:
        """None, unless a test gives some."""
        return self.descriptors

    def log(self) -> Log:
        """Nothing."""
        return MemoryLog({})

    def close(self) -> None:
        """Is remembered."""
        self.closed = True


class Posted:
    """What a feed posted, and a way to wait for more."""

    def __init__(self) -> None:
        self.all: list[Built | Failed | Status] = []
        self._changed = threading.Condition()

    def __call__(self, what: Built | Failed | Status) -> None:
        with self._changed:
            self.all.append(what)
            self._changed.notify_all()

    def wait_for(self, wanted: "object", limit_s: float = 30.0) -> None:
        """Until something equal was posted, or something that the given function says yes to."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(_is(each, wanted) for each in self.all), limit_s), self.all

    def views(self) -> list[View]:
        """Every view, in order."""
        return [each.view for each in self.all if isinstance(each, Built)]

    def states(self) -> list[str]:
        """Every state that was told, without repetitions."""
        states = [each.state for each in self.all if isinstance(each, Status)]
        return [state for place, state in enumerate(states) if place == 0 or states[place - 1] != state]


def _is(posted: Built | Failed | Status, wanted: object) -> bool:
    if callable(wanted):
        return bool(wanted(posted))
    return posted == wanted or (isinstance(posted, Built) and posted.view == wanted)
