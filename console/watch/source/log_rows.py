"""The narrow rows of a saved log: of all of it, by one pass that feeds measures too, or of its end alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from checks.check import Check
from checks.columns import SCHEMAS
from checks.faults.mfu import mfu
from checks.log import Log
from checks.measure import Measure, MeasureType
from checks.passes import one_pass
from checks.readers.log_end import NotAlone, log_end
from checks.readers.plain_bytes import is_compressed
from checks.readers.walk import walk
from console.watch.held import LONG, UNSHOWN

END_BYTES = 4 * 2**20
"""Of a log's end that is shown before the rest was read; a log that is no longer is read at once."""
_NARROW = tuple(name for name in SCHEMAS["turns"] if name not in (*LONG, *UNSHOWN))
_SMALL = ("rewards", "feedback", "steps", "spans", "evals", "events", "runs", "versions")
_READER = Check("watch", mfu, ("turns",), (*_NARROW, "prompt_tokens", "completion_tokens"))
"""Asks one pass over the log for the narrow columns; its function is never called."""


class LogRows(NamedTuple):
    """What is held of a log, but for its tokens."""

    frames: dict[str, pl.DataFrame]
    """By table, with the columns that a log can have."""
    format: str
    damage: tuple[str, ...]
    """What could not be read, a line each."""


def is_short(path: Path) -> bool:
    """Whether a log is read at once: in no more time than the end of a long one."""
    found = walk(path)
    files = found.files
    return not found.stores and not any(map(is_compressed, files)) and sum(_size(each) for each in files) <= END_BYTES


def rows_of(
    log: Log,
    measures: Mapping[str, Measure] | None = None,
    kinds: Mapping[str, MeasureType] | None = None,
    on_batch: Callable[[int], None] = lambda _: None,
) -> LogRows:
    """All of them; the measures see every turn once, and `on_batch` is told how many were read."""
    turns = one_pass(log, [_READER], measures or {}, kinds or {}, on_batch)
    frames = {"turns": turns, **{name: log.table(name) for name in _SMALL}}
    source = log.source()
    damage = [f"{each.place}: {each.reason}" for each in source.unreadable_first]
    more = source.unreadable - len(damage)
    damage += [f"{more} more pieces that could not be read"] if more > 0 else []
    return LogRows(frames, source.format, tuple(damage))


def rows_of_end(path: Path, reads: str | None) -> LogRows | None:
    """Those of a log's end; None where there is no turn in it, or where it cannot be read alone.

    What could not be read is not said of it: all of the log says that.
    """
    try:
        end = log_end(path, reads=reads, most_bytes=END_BYTES)
        rows = None if end is None else rows_of(end)
    except NotAlone:
        return None
    return None if rows is None or rows.frames["turns"].is_empty() else rows._replace(damage=())


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
