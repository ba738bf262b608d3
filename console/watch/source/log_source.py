"""A saved log under watch: any that `roundhouse check` reads. It is read once."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from checks.check import Check
from checks.columns import SCHEMAS
from checks.faults.mfu import mfu
from checks.log import Log
from checks.passes import one_pass
from checks.readers.open_log import open_log
from checks.token_signals import token_signals
from console.watch.held import LONG, UNSHOWN, Held, Origin
from console.watch.holding import NO_TOKENS, hold
from console.watch.source.token_reading import TokenReading

_NARROW = tuple(name for name in SCHEMAS["turns"] if name not in (*LONG, *UNSHOWN))
_SMALL = ("rewards", "feedback", "steps", "spans", "evals", "events", "runs", "versions")
_READER = Check("watch", mfu, ("turns",), (*_NARROW, "prompt_tokens", "completion_tokens"))
"""Asks one pass over the log for the narrow columns; its function is never called."""


class LogSource:
    """Narrow columns now, tokens when they come."""

    def __init__(self, path: Path, *, reads: str | None = None, tokens: TokenReading | None = None) -> None:
        self._path = path
        self._reads = reads
        self._tokens = tokens
        self._log: Log | None = None
        self._held: Held | None = None

    def poll(self) -> Held | None:
        """The log, once; and once more whenever more of its tokens were read."""
        fresh = self._tokens is not None and self._tokens.poll()
        if self._held is None:
            self._held = self._read()
        elif not fresh:
            return None
        tokens = NO_TOKENS if self._tokens is None else self._tokens.tokens
        signals = token_signals(tokens.weights, tokens.lags, tokens.entropies, self._held.versions)
        revision = self._held.revision + 1
        self._held = self._held._replace(tokens=tokens._replace(signals=signals), revision=revision)
        return self._held

    def signals(self) -> Sequence[int]:
        """A log is read once: only its tokens come later."""
        signal = None if self._tokens is None else self._tokens.signal
        return () if signal is None else (signal,)

    def log(self) -> Log:
        """The same log; it may be read as often as is asked."""
        if self._log is None:
            self._log = open_log(self._path, reads=self._reads)
        return self._log

    def close(self) -> None:
        """Ends the reading of tokens."""
        if self._tokens is not None:
            self._tokens.close()

    def _read(self) -> Held:
        log = open_log(self._path, reads=self._reads)
        turns = one_pass(log, [_READER], {}, {}, lambda _: None)
        frames: dict[str, pl.DataFrame] = {"turns": turns, **{name: log.table(name) for name in _SMALL}}
        source = log.source()
        damage = [f"{each.place}: {each.reason}" for each in source.unreadable_first]
        more = source.unreadable - len(damage)
        damage += [f"{more} more pieces that could not be read"] if more > 0 else []
        return hold(frames, source=Origin(path=str(self._path), format=source.format), damage=tuple(damage), revision=0)
