"""A store under watch: what is new since the last look, live or copied."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from checks.log import Log
from checks.token_signals import token_signals
from collector.store.layout import Layout
from console.watch.held import Held, Origin, Tokens
from console.watch.holding import NO_TOKENS, hold
from console.watch.source.clock_ahead import by_this_clock
from console.watch.source.folder_notices import FolderNotices
from console.watch.source.session_log import SessionLog
from console.watch.source.store_registry import StoreRegistry, read_store_registry
from console.watch.source.store_rows import StoreRows
from console.watch.source.store_stamp import StoreStamp, of_registry, store_stamp, writers_of
from console.watch.source.token_reading import TokenReading
from console.watch.status import STORE


class StoreSource:
    """Holds the narrow tables of a store and reads on where its files were touched."""

    def __init__(self, store: Path, *, tokens: TokenReading | None = None) -> None:
        self._store = store
        self._stamp: StoreStamp | None = None
        self._rows: StoreRows | None = None
        self._registry: StoreRegistry | None = None
        self._tokens = tokens
        self._notices = FolderNotices([store, Layout(store).journals])
        self._noticed = True
        self._log = SessionLog(store)
        self._of: tuple[Tokens, pl.DataFrame, Tokens] | None = None
        self._revision = 0
        self._came_at: datetime | None = None

    def poll(self) -> Held | None:
        """What the store holds, if it is not what it was."""
        stamp = store_stamp(self._store)
        self._check_notices(stamp)
        fresh = self._read(stamp)
        fresh = (self._tokens is not None and self._tokens.poll()) or fresh
        self._stamp = stamp
        if not fresh or self._rows is None or self._registry is None:
            return None
        self._revision += 1
        self._came_at = self._rows.came_at or self._came_at
        held = hold(
            {**self._rows.frames(), "versions": self._registry.versions},
            source=Origin(path=str(self._store), format=STORE),
            read_at=datetime.now(UTC),
            registry=self._registry.snapshot,
            audit=self._registry.audit,
            tokens=self._with_signals(self._registry.versions),
            damage=self._rows.damage,
            revision=self._revision,
            newest_at=self._rows.newest_at,
            scores=self._rows.scores,
        )
        return by_this_clock(held, came_at=self._came_at, written_at=stamp.written_at)

    def signals(self) -> Sequence[int]:
        """Of files that were written, and of tokens that were read."""
        if self._notices.descriptor is None:
            return ()
        signal = None if self._tokens is None else self._tokens.signal
        return (self._notices.descriptor,) if signal is None else (self._notices.descriptor, signal)

    def log(self) -> Log:
        """Single sessions are read by themselves, everything by the ordinary reader."""
        return self._log

    def close(self) -> None:
        """Ends the notices and the reading of tokens."""
        self._notices.close()
        if self._tokens is not None:
            self._tokens.close()

    def _check_notices(self, stamp: StoreStamp) -> None:
        """Whoever misses a write that the stamps show, as on a network's disk, is not relied on any more."""
        noticed = self._notices.taken()
        if self._stamp is not None and stamp.files != self._stamp.files and not (noticed or self._noticed):
            self._notices.close()
        self._noticed = noticed

    def _with_signals(self, versions: pl.DataFrame) -> Tokens:
        """What the tokens tell, by step; made anew only for other tokens or versions."""
        if self._tokens is None:
            return NO_TOKENS
        tokens = self._tokens.tokens
        if self._of is None or self._of[0] is not tokens or self._of[1] is not versions:
            signals = token_signals(tokens.weights, tokens.lags, tokens.entropies, versions)
            self._of = (tokens, versions, tokens._replace(signals=signals))
        return self._of[2]

    def _read(self, stamp: StoreStamp) -> bool:
        touched = None if self._stamp is None else stamp.touched(self._stamp)
        if self._tokens is not None and touched != set():
            self._tokens.nudge()
        if touched is None or self._stamp is None or self._rows is None or stamp.replaced(self._stamp):
            # A registry's change is an effect of what the journals hold, so the registry is read first.
            self._registry = read_store_registry(self._store)
            self._rows = StoreRows(self._store)
            return True
        fresh = False
        if of_registry(touched):
            registry = read_store_registry(self._store)
            if self._registry is None or registry.snapshot != self._registry.snapshot:
                self._registry, fresh = registry, True
        writers = writers_of(touched)
        found = self._rows.follow(writers) if writers else False
        if found is None:
            self._rows = StoreRows(self._store)
        return fresh or found is not False
