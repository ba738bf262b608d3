"""The thread that builds one topic's view, whenever what is held or what is asked has changed."""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from collector.errors import UserError
from console.watch.topic import OpenLog, Topic, View

if TYPE_CHECKING:
    from console.watch.held import Held

BUSY_SHARE = 0.005
"""Most of a core that building anew for new records may take: a build is followed by a rest of the processor time that
the console took meanwhile, over this share: frames are computed in threads of their own. What a person asks for is
built at once."""
MOST_REST_S = 60.0
"""Longest that a view stands still for that, if its topic does not say otherwise."""


class Built(NamedTuple):
    """A view that was asked for."""

    topic: str
    ask: msgspec.Struct
    """What it answers: a later ask may be under way."""
    view: View
    newest_at: datetime | None
    """Time of the newest record of what it shows: a view that rests is behind what was read since."""


class Failed(NamedTuple):
    """A view that could not be built."""

    topic: str
    ask: msgspec.Struct
    error: str


Build = Built | Failed


class Builder:
    """Builds one topic in a thread of its own, so that one that waits for tokens does not stop the others."""

    # Any: a topic is asked in its own words, which are opaque here.
    def __init__(
        self, topic: Topic[Any], shown: Callable[[], "Held | None"], log: OpenLog, post: Callable[[Build], None]
    ) -> None:
        self._topic = topic
        self._shown = shown
        self._log = log
        self._post = post
        self._changed = threading.Condition()
        self._asked: msgspec.Struct | None = None
        self._woken = self._urgent = self._asked_anew = False
        self._closing = False
        self._last: Build | None = None
        self._of: tuple[Held | None, msgspec.Struct | None] = (None, None)
        self._rest_until = 0.0
        self._thread = threading.Thread(target=self._run, name=f"watch-{topic.name}", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether it still builds: a fault of ours ends it, and is shown."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def ask(self, ask: msgspec.Struct) -> None:
        """What is wanted from now on."""
        with self._changed:
            self._asked, self._asked_anew = ask, True
            self._changed.notify()

    def wake(self, *, urgent: bool = False) -> None:
        """What is held may have changed; it is urgent where a person went to another time."""
        with self._changed:
            self._woken, self._urgent = True, self._urgent or urgent
            self._changed.notify()

    def close(self) -> None:
        """Ends the thread after what it is at; that is not posted any more."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _run(self) -> None:
        while (wanted := self._next()) is not None:
            ask, fresh = wanted
            # What is asked while it rests is answered from what was built of last: views keep what that took.
            held = self._shown() if fresh or self._of[0] is None else self._of[0]
            if held is None or (held is self._of[0] and ask == self._of[1]):
                continue
            started_s, first = time.process_time(), self._of[0] is None
            self._built(held, ask)
            # The first build loads what it needs, and the second often has the tokens that the first had not.
            if fresh and not first:
                self._rest_until = time.monotonic() + min(
                    (time.process_time() - started_s) / BUSY_SHARE, self._topic.most_rest_s or MOST_REST_S
                )

    def _next(self) -> tuple[msgspec.Struct, bool] | None:
        """Waits for what is to be built, and whether of what is held now; None at the end."""
        with self._changed:
            while not self._closing:
                rest_s = self._rest_until - time.monotonic()
                due = self._woken and rest_s <= 0
                if self._asked is not None and (due or self._urgent or self._asked_anew):
                    fresh = due or self._urgent
                    if fresh:
                        self._woken = self._urgent = False
                    self._asked_anew = False
                    return self._asked, fresh
                self._changed.wait(rest_s if self._woken else None)
            return None

    def _built(self, held: "Held", ask: msgspec.Struct) -> None:
        try:
            made: Build = Built(self._topic.name, ask, self._topic.build(held, ask, self._log), held.newest_at)
        except (UserError, OSError) as error:
            made = Failed(self._topic.name, ask, str(error))
        except BaseException as error:
            self._say(Failed(self._topic.name, ask, repr(error)))
            raise
        self._of = (held, ask)
        self._say(made)

    def _say(self, made: Build) -> None:
        """Posts it, unless it shows what the last one showed."""
        with self._changed:
            last, self._last = self._last, made
            closing = self._closing
        same = last is not None and (last.topic, last.ask) == (made.topic, made.ask)
        if isinstance(made, Built) and isinstance(last, Built):
            same = same and (made.newest_at, made.view) == (last.newest_at, last.view)
        elif same:
            same = made == last
        if not closing and not same:
            self._post(made)
