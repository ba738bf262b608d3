"""The rows of a table that a snapshot holds, less those of damaged segments, which are named."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from collections.abc import Iterator, Mapping

import polars as pl

from collector.errors import StoreError
from collector.store.layout import SegmentName
from collector.store.snapshot import Snapshot
from console.watch.source.narrow_rows import columns_to_read, narrow

_NONE = 2**62
"""A first seq that no row reaches."""


def rows_of(snapshot: Snapshot, table: str, since: Mapping[str, int], damage: list[str]) -> list[pl.DataFrame]:
    """Rows from a seq of each writer on; what a segment refuses to give is a line of `damage`, once."""
    try:
        return [*_read(snapshot, table, since)]
    except StoreError:
        return [*_by_segment(snapshot, table, since, damage)]


def _read(snapshot: Snapshot, table: str, since: Mapping[str, int]) -> Iterator[pl.DataFrame]:
    for batch in snapshot.batches(table, columns=columns_to_read(table), since=since):
        if batch.num_rows:
            yield narrow(table, batch)


def _by_segment(snapshot: Snapshot, table: str, since: Mapping[str, int], damage: list[str]) -> Iterator[pl.DataFrame]:
    names = [SegmentName.parse(path.name) for path in snapshot.sealed_segments(table)]
    segments = sorted(name for name in names if name is not None)
    past = {name.writer: name.hi + 1 for name in segments}
    for segment in segments:
        first = max(segment.lo, since.get(segment.writer, 0))
        if first > segment.hi:
            continue
        try:
            for rows in _read(snapshot, table, {**dict.fromkeys(past, _NONE), segment.writer: first}):
                of_segment = rows.filter((pl.col("writer") == segment.writer) & (pl.col("seq") <= segment.hi))
                if of_segment.is_empty():
                    break
                yield of_segment
        except StoreError as error:
            damage.append(str(error))
    yield from _read(
        snapshot, table, {**since, **{writer: max(hi, since.get(writer, 0)) for writer, hi in past.items()}}
    )
