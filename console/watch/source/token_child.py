"""The process that reads tokens for the console, so that its work never holds the interpreter of the screens.

    python -m console.watch.source.token_child ORDER

ORDER is a `token_news.Order` as JSON. News go to stdout; it ends with its standard input.
"""

import os
import select
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import polars as pl

from checks.log import Batch, Log
from checks.readers.native_log import NativeLog
from checks.readers.native_store import is_store
from checks.readers.store_window import StoreWindow, Window
from collector.errors import UserError
from collector.store.layout import Layout
from collector.store.reader import Reader
from console.watch.source.journal_tail import Standing, read_tail
from console.watch.source.log_measures import tell_log
from console.watch.source.store_stamp import StoreStamp, store_stamp
from console.watch.source.token_measures import SCORE_COLUMNS, TURN_COLUMNS, TokenMeasures
from console.watch.source.token_news import News, Order, frame_bytes, packed
from console.watch.source.token_tables import Known, Portion

TELL_S = 1.0
"""Between two news while it reads."""
LOOK_S = 0.5
"""Least between two rounds."""
BUSY_SHARE = 0.02
"""Most of a core that following a live store takes, after the first pass."""
RETRY_S = 30.0
"""After a store could not be read."""


def main(order: Order) -> None:
    """Reads until standard input ends."""
    path = Path(order.path)
    if order.reads is not None or not is_store(path):
        threading.Thread(target=_end_with_owner, daemon=True).start()
        try:
            tell_log(order, _tell, tell_s=TELL_S)
        except (UserError, OSError) as error:
            _tell(News(share=0.0, error=" ".join(str(error).split())))
        threading.Event().wait()
    window = Window(order.window_s, order.window_turns)
    rounds = StoreRounds(path) if window == Window() else WindowRounds(path, window)
    owner, rest_s, first = Owner(), 0.0, True
    follows = isinstance(rounds, StoreRounds)
    nudged = False
    while not owner.gone(rest_s, nudged=nudged):
        started_s = time.process_time()
        try:
            for news in rounds.next():
                _tell(news)
            # The first round reads everything, and loads what that needs: it is not what following costs.
            rest_s = LOOK_S if first else max(LOOK_S, (time.process_time() - started_s) / BUSY_SHARE)
            first, nudged = False, follows
        except (UserError, OSError) as error:
            _tell(News(share=0.0, error=" ".join(str(error).split())))
            rest_s, nudged = RETRY_S, False


class StoreRounds:
    """A store as it grows: each round reads what is new. Records that went make it begin anew."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._layout = Layout(store)
        self._begin()

    def _begin(self) -> None:
        self._measures = TokenMeasures()
        self._known = Known()
        self._standing: dict[str, Standing] = {}
        self._stamp: StoreStamp | None = None

    def next(self) -> Iterator[News]:
        """One round; nothing where the store was not touched."""
        stamp = store_stamp(self._store)
        if self._stamp is not None and not stamp.touched(self._stamp):
            return
        standing = {name: read_tail(self._layout, name, 0, ()).standing for name in self._layout.writers()}
        if any(standing[name] != before for name, before in self._standing.items() if name in standing):
            self._begin()
            yield News(share=0.0, frames=_frames(self._measures))
        try:
            yield from self._read()
        except BaseException:
            # A part of the portion may have been added: only a new beginning is right.
            self._begin()
            raise
        self._stamp, self._standing = stamp, standing

    def _read(self) -> Iterator[News]:
        with Reader(self._store).snapshot(["turns", "scores"]) as snapshot:
            portion = Portion(snapshot, self._known)
            before = self._known.turns.height - len(portion.late)
            done, told = 0, time.monotonic()
            for batch in NativeLog(portion).batches(TURN_COLUMNS, SCORE_COLUMNS):
                self._measures.add(batch, portion.late)
                done += batch.turns.height
                if time.monotonic() - told > TELL_S and not before:
                    # How far it is, and nothing else: what a part of a large store tells would be made for nothing.
                    yield News(share=min(0.999, done / portion.height))
                    told = time.monotonic()
        first = self._stamp is None
        self._known = portion.known
        if done or first:
            yield News(share=1.0, frames=_frames(self._measures))


class WindowRounds:
    """The latest part of a store, measured from the start in each round."""

    def __init__(self, store: Path, window: Window) -> None:
        self._reader = Reader(store)
        self._window = StoreWindow(store, window)

    def next(self) -> Iterator[News]:
        """One round."""
        measures = TokenMeasures()
        with self._reader.snapshot() as snapshot:
            log = self._window.log(snapshot, datetime.now(UTC))
            for batch in _batches(log):
                measures.add(batch, {})
        yield News(share=1.0, frames=_frames(measures))


def _batches(log: Log) -> Iterator[Batch]:
    return log.batches(TURN_COLUMNS, SCORE_COLUMNS)


def _frames(measures: TokenMeasures) -> dict[str, bytes]:
    frames: Mapping[str, pl.DataFrame] = measures.frames()
    return {name: frame_bytes(frame) for name, frame in frames.items()}


def _tell(news: News) -> None:
    sys.stdout.buffer.write(packed(news))
    sys.stdout.buffer.flush()


def _end_with_owner() -> None:
    """Ends this process at once, wherever it is, with its standard input."""
    owner = Owner()
    while not owner.gone(3600.0):
        pass
    os._exit(0)


class Owner:
    """Who started it, at the other end of standard input: its end is the end of this, a byte says to look again."""

    def __init__(self) -> None:
        self._gone = self._nudged = False

    def gone(self, rest_s: float, *, nudged: bool = False) -> bool:
        """Whether it is gone, after a rest that nothing else ends; `nudged` waits on until it says to look again."""
        end = time.monotonic() + rest_s
        while not self._gone:
            left_s = max(0.0, end - time.monotonic())
            self._hear(left_s)
            if left_s <= 0:
                break
        while nudged and not (self._gone or self._nudged):
            self._hear(None)
        self._nudged = False
        return self._gone

    def _hear(self, wait_s: float | None) -> None:
        if select.select([0], [], [], wait_s)[0]:
            heard = os.read(0, 4096)
            self._gone, self._nudged = not heard, self._nudged or bool(heard)


if __name__ == "__main__":
    os.nice(10)
    try:
        main(msgspec.json.decode(sys.argv[1], type=Order))
    except BrokenPipeError:
        sys.stderr.close()
