"""A feed that tests drive by hand: it builds from a `Held` at once, in the thread that asks."""

from collections.abc import Callable
from datetime import UTC, datetime

from checks.log import Log
from console.watch.builder import Built, Failed
from console.watch.feed import Feed, Post
from console.watch.held import TABLES, Held, Origin, Tokens, empty
from console.watch.status import Status
from console.watch.topic import Ask, Topic

NOW = datetime(2026, 11, 29, 11, 46, 47, tzinfo=UTC)


def held(**changed: object) -> Held:
    """Nothing, or what is given, as it is held."""
    frames = {name: empty(name) for name in TABLES}
    return Held(
        **frames,
        registry=None,
        audit=(),
        tokens=Tokens(),
        damage=(),
        source=Origin(path="/stores/support-agent", format="store"),
        read_at=NOW,
        newest_at=NOW,
        revision=1,
    )._replace(**changed)


def no_log() -> Log:
    """There is none."""
    raise AssertionError("no view of this test reads a log")


class FakeFeed(Feed):
    """Answers every ask from one `Held` and keeps what was called."""

    def __init__(self, first: Held | None = None, *, log: Callable[[], Log] = no_log) -> None:
        self.held = first or held()
        self.log = log
        self.calls: list[object] = []
        self.asks: dict[str, tuple[Topic, Ask]] = {}
        self._post: Post | None = None
        self._status = Status(state="live", at=self.held.newest_at, lag_s=0.4)

    def start(self, post: Post) -> None:
        """Everything asked so far is built."""
        self._post = post
        post(self._status)
        self.again()

    def close(self) -> None:
        """Nothing comes any more."""
        self._post = None

    @property
    def status(self) -> Status:
        """What was set last."""
        return self._status

    def set(self, status: Status) -> None:
        """Says another status."""
        self._status = status
        if self._post:
            self._post(status)

    def put(self, newer: Held) -> None:
        """Something new was read."""
        self.held = newer
        self.again()

    def again(self) -> None:
        """Builds everything that is asked."""
        for name in [*self.asks]:
            self._build(name)

    def fail(self, topic: str, error: str) -> None:
        """Says that a view could not be built."""
        assert self._post
        self._post(Failed(topic, self.asks[topic][1], error))

    def ask(self, topic: Topic, ask: Ask) -> None:
        """Builds it at once."""
        self.asks[topic.name] = (topic, ask)
        if self._post:
            self._build(topic.name)

    def forget(self, topic: str) -> None:
        """Builds it no more."""
        self.asks.pop(topic, None)

    def pause(self) -> None:
        """Paused at what is shown."""
        self.calls.append("pause")
        self.set(Status(state="paused", at=self._status.at, behind_s=0.0))

    def seek(self, at: datetime) -> None:
        """Replay at a time."""
        self.calls.append(("seek", at))
        self.set(Status(state="replay", at=at, behind_s=(NOW - at).total_seconds()))

    def step(self, by: int) -> None:
        """Only noted."""
        self.calls.append(("step", by))

    def live(self) -> None:
        """Live again."""
        self.calls.append("live")
        self.set(Status(state="live", at=NOW, lag_s=0.4))

    def _build(self, name: str) -> None:
        topic, ask = self.asks[name]
        assert self._post
        self._post(Built(name, ask, topic.build(self.held, ask, self.log), self.held.newest_at))
