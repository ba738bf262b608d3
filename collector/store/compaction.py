"""Merges many small neighbouring segments of a table into one; readers keep the old ones for a grace period."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import pyarrow as pa
import pyarrow.parquet as pq

from collector.config import StoreConfig
from collector.store.journal import Segment
from collector.store.layout import Layout, SegmentName
from collector.store.segments import Hook, write_segment

SMALL_SEGMENTS = 8
"""Neighbouring small segments that are worth one merge."""


def mergeable(segments: list[Segment], config: StoreConfig) -> list[Segment]:
    """The first neighbouring small segments that fit into one; empty when there are too few."""
    run: list[Segment] = []
    for segment in sorted(segments, key=lambda segment: segment.lo):
        small = segment.row_count * 2 <= config.seal_rows and segment.byte_count * 2 <= config.seal_bytes
        rows = sum(s.row_count for s in run) + segment.row_count
        size = sum(s.byte_count for s in run) + segment.byte_count
        if small and rows <= config.seal_rows and size <= config.seal_bytes:
            run.append(segment)
        elif len(run) >= SMALL_SEGMENTS:
            break
        else:
            run = [segment] if small else []
    return run if len(run) >= SMALL_SEGMENTS else []


def merge(layout: Layout, writer: str, old: list[Segment], hook: Hook) -> Segment:
    """Writes the rows of several segments as one new segment."""
    table = old[0].tbl
    rows = pa.concat_tables(read_segment(layout, segment) for segment in old)
    return write_segment(layout, table, rows, writer, next_generation(old), hook)


def next_generation(old: list[Segment]) -> int:
    """A generation later than those of the segments to be replaced."""
    names = [SegmentName.parse(segment.name) for segment in old]
    return max(name.generation for name in names if name is not None) + 1


def read_segment(layout: Layout, segment: Segment) -> pa.Table:
    """A whole segment, every page checked."""
    path = layout.table(segment.tbl) / segment.name
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()
