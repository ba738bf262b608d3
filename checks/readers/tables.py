"""The tables of a native log as Arrow gives them, before their types are those of the checks."""

# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

import polars as pl
import pyarrow as pa

from checks.log import Unreadable


class Origin(NamedTuple):
    """Where tables came from."""

    path: str
    reason: str
    """By what it was recognised."""
    files: int


class Tables(Protocol):
    """Native tables, read as often as asked, a bounded number of bytes at a time."""

    @property
    def origin(self) -> Origin:
        """Where they came from."""
        ...

    def columns(self, table: str) -> Sequence[str]:
        """The columns a table has; none when there is no such table."""
        ...

    def batches(
        self, table: str, columns: Sequence[str], *, sessions: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a table, always in the same order, with some of its columns.

        Rows of other sessions than `sessions` may be left out; they do no harm.
        """
        ...

    def rows(self, table: str) -> int | None:
        """How many rows a table has, where that is known beforehand."""
        ...

    def unreadable(self) -> Sequence[Unreadable]:
        """What could not be read so far."""
        ...


def frame_of_arrow(rows: pa.RecordBatch | pa.Table) -> pl.DataFrame:
    """Arrow's rows as a Polars frame, without a copy where the types allow it."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame
