"""What every reader offers: how it recognises a file, and the rows it reads from it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from checks.readers.file_head import FileHead
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row

Unit = tuple[Path, ...]
"""Files that are read together."""


def _one_each(heads: Sequence[FileHead]) -> list[Unit]:
    return [(head.path,) for head in heads]


class Format(NamedTuple):
    """One framework's logs."""

    name: str
    """As `--reads` takes it and `source.format` says it."""
    about: str
    """What is read of it, in one line."""
    recognise: Callable[[FileHead], str | None]
    """The reason why a file is of this format, else None; sees the start of one file and does no more I/O."""
    read: Callable[[Unit, UnreadableParts], Iterator[Row]]
    """The rows of a unit in bounded memory. What cannot be read is counted; the rest is given."""
    units: Callable[[Sequence[FileHead]], list[Unit]] = _one_each
    """Which files belong together, in the order in which they are read."""
    advice: Mapping[str, str] = {}
    """`table.column` to the switch that makes the framework record it."""
    alone: tuple[type[Row], ...] = ()
    """Rows that a line gives whatever lines stand before it, but for names made of its number and turns without one."""
