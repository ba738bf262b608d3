"""Threads that read what is watched and build the views that are asked for; the screens never wait for them."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import msgspec

from collector.errors import StoreError, UserError
from console.watch.builder import Build, Builder, Built, Failed
from console.watch.reading import RETRY_S, Reading, ReadingThread
from console.watch.status import STORE, Status, status_of, worth_telling
from console.watch.topic import Topic

if TYPE_CHECKING:
    from checks.log import Log
    from console.watch.held import Held
    from console.watch.source.source import Source

INTERVAL_S = 0.25
"""Between two looks at what is watched."""
AGES_S = 60.0
"""After so long without new records what tells ages is built anew: ages are told in whole minutes."""
WINDOW_MOVES_S = 30.0
"""The same for a window by time and all that is built of it, as `check --watch` does."""

Post = Callable[[Built | Failed | Status], None]
"""Takes what is new, in a thread of the feed; it must not block. A Status comes when it changed."""
A = TypeVar("A", bound=msgspec.Struct)
Mode = Literal["live", "paused", "replay"]


class _Made(NamedTuple):
    """What was made of what is held, for the time that is shown or a window, and of what."""

    of: tuple[object, ...]
    held: "Held"


class Feed:
    """Reads and builds in threads of its own. Every method returns at once and may be called from any thread."""

    def __init__(
        self,
        open_source: Callable[[], "Source"],
        *,
        interval_s: float = INTERVAL_S,
        retry_s: Sequence[float] = RETRY_S,
        at: "Callable[[Held], datetime] | None" = None,
        within: "Callable[[Held, datetime], Held] | None" = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`at` begins in replay, at the time it gives for what was read first. `within` cuts a window out of what is
        shown, as of a time."""
        self._clock = clock
        self._lock = threading.RLock()
        self._making = threading.Lock()
        self._reader = ReadingThread(open_source, self._read, interval_s=interval_s, retry_s=retry_s)
        self._reading = Reading()
        self._begin_at = at
        self._within = within
        self._mode: Mode = "live" if at is None else "replay"
        self._at: datetime | None = None
        self._paused: Held | None = None
        self._made: _Made | None = None
        self._remark: str | None = None
        self._now = clock()
        self._builders: dict[str, Builder] = {}
        self._aging: set[str] = set()
        self._post: Post | None = None
        self._told = Status(state="reading")

    def start(self, post: Post) -> None:
        """Begins reading; `post` is told of everything new."""
        self._post = post
        self._reader.start()

    def close(self) -> None:
        """Ends the threads, without waiting for a read that hangs."""
        self._post = None
        self._reader.close()
        with self._lock:
            builders = [*self._builders.values()]
            self._builders.clear()
        for builder in builders:
            builder.close()

    @property
    def status(self) -> Status:
        """As it is now."""
        with self._lock:
            shown = self._at if self._mode == "replay" else None if self._paused is None else self._paused.newest_at
            mode = self._mode if self._mode != "paused" or self._paused is not None else "live"
            status = status_of(self._reading, mode, shown, self._clock())
            return status if status.error or not self._remark else msgspec.structs.replace(status, error=self._remark)

    def ask(self, topic: Topic[A], ask: A) -> None:
        """Wants a topic's view, now and whenever it changes; replaces what was asked of that topic before."""
        with self._lock:
            if topic.tells_ages:
                self._aging.add(topic.name)
            builder = self._builders.get(topic.name)
            if builder is None or not builder.alive:
                shown = self._shown if topic.of_part else self._whole
                builder = self._builders[topic.name] = Builder(topic, shown, self._open_log, self._built)
                builder.start()
        builder.ask(ask)

    def forget(self, topic: str) -> None:
        """Wants no more of a topic: its screen is hidden."""
        with self._lock:
            builder = self._builders.pop(topic, None)
        if builder is not None:
            builder.close()

    def pause(self) -> None:
        """Views stand still; reading goes on. In replay they stand still already."""
        with self._lock:
            if self._mode == "live":
                held = self._reading.held
                self._mode, self._paused = "paused", None if held is None else _aged(held, self._now)
        self._tell()

    def seek(self, at: datetime) -> None:
        """Views show it as it stood at a time."""
        with self._lock:
            self._mode, self._at, self._paused = "replay", at, None
        self._changed(urgent=True)

    def step(self, by: int) -> None:
        """Goes back or on by so many moments at which something was recorded; past the newest it is live again."""
        with self._lock:
            held, shown = self._reading.held, self.status.at
        if held is None or shown is None:
            return
        from console.watch.moments import moment_after

        moment = moment_after(held, shown, by)
        if moment is None:
            self.live()
        else:
            self.seek(moment)

    def live(self) -> None:
        """Back to the newest, from pause or replay."""
        with self._lock:
            self._mode, self._at, self._paused, self._remark = "live", None, None, None
        self._changed(urgent=True)

    def _read(self, reading: Reading) -> None:
        """What the reading thread found, in its thread."""
        with self._lock:
            if reading.held is not None and reading.held.source.part is None:
                self._begin(reading.held)
            fresh = not _shows_the_same(reading.held, self._reading.held)
            # Of what cannot be read nobody knows how it stands now.
            due = fresh or (reading.error is None and self._clock() - self._now >= self._moves_after)
            self._now = self._clock() if due else self._now
            self._reading = reading
            if self._mode == "paused" and (self._paused is None or self._paused.source.part is not None):
                self._paused = None if reading.held is None else _aged(reading.held, self._now)
        if due:
            self._changed(of_time=not fresh and self._within is None)
        else:
            self._tell()

    def _begin(self, held: "Held") -> None:
        """Goes to the time that the command line names; what is no time in what was read is said, and it is live."""
        begin_at, self._begin_at = self._begin_at, None
        if begin_at is None:
            return
        try:
            self._at = begin_at(held)
        except UserError as error:
            self._mode, self._remark = "live", str(error)

    @property
    def _moves_after(self) -> timedelta:
        return timedelta(seconds=AGES_S if self._within is None else WINDOW_MOVES_S)

    def _changed(self, *, urgent: bool = False, of_time: bool = False) -> None:
        """There may be something else to show; `of_time`: only because time went on."""
        self._tell()
        with self._lock:
            builders = [builder for name, builder in self._builders.items() if name in self._aging or not of_time]
        for builder in builders:
            builder.wake(urgent=urgent)

    def _tell(self) -> None:
        with self._lock:
            now, post = self.status, self._post
            if post is None or not worth_telling(self._told, now):
                return
            self._told = now
        post(now)

    def _shown(self) -> "Held | None":
        """What views are built of now."""
        with self._lock:
            held, mode, at, paused, now = self._reading.held, self._mode, self._at, self._paused, self._now
        base = paused if mode == "paused" else held
        if base is not None and (part := base.source.part) is not None:
            # Another time, or a window, is one of the whole log.
            return base if part.turns and mode != "replay" and self._within is None else None
        if base is None or (mode == "replay" and at is None):
            return base
        with self._making:
            of = (base, at, now if mode == "live" else None)
            if at is not None and base.newest_at is not None and base.newest_at > at:
                # What is older than the time does not change any more, but for tokens that were not read yet.
                of = (base.tokens.share, base.source, at)
            if self._made is None or not _same(self._made.of, of):
                then = base.until(at) if at is not None else base if mode == "paused" else _aged(base, now)
                self._made = _Made(of, then if self._within is None else self._within(then, at or then.read_at))
            return self._made.held

    def _whole(self) -> "Held | None":
        """The same, where it is all there is."""
        held = self._shown()
        return None if held is None or held.source.part is not None else held

    def _open_log(self) -> "Log":
        source = self._reader.source
        if source is None:
            raise StoreError("nothing is being read now; try again when the store is there")
        return source.log()

    def _built(self, build: Build) -> None:
        post = self._post
        if post is not None:
            post(build)


def _aged(held: "Held", now: datetime) -> "Held":
    """A store's content as it stands now, though nothing was written since; for a saved log no time passes."""
    return held._replace(read_at=now) if held.source.format == STORE else held


def _shows_the_same(held: "Held | None", before: "Held | None") -> bool:
    """Whether nothing else is held, but for how much of a log was read of which the same part is shown."""
    if held is before or held is None or before is None:
        return held is before
    return held.source.part is not None and before.source.part is not None and held.turns is before.turns


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Without comparing what is held row by row."""
    plain = (datetime, float, int)
    return all(a is b or (isinstance(a, plain) and a == b) for a, b in zip(one, other, strict=True))


__all__ = ["INTERVAL_S", "Built", "Failed", "Feed", "Post"]
