"""Rows of sealed segments for a reader: right, or a refusal that names the segment. A footer has no checksum."""

# pyright: reportAttributeAccessIssue=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from collector.errors import StoreError
from collector.store.columns import stored_schema
from collector.store.journal import Segment
from collector.store.layout import Layout

_UNDECODABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    pa.ArrowException,
)
"""What Parquet's decoder was seen, or is documented, to raise on bytes that are not what was written."""


class SegmentRows:
    """Reads segments by row groups, and remembers which keys each group holds."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._ranges: dict[tuple[str, int, str], tuple[str | None, str | None]] = {}

    def groups(self, segment: Segment, names: Sequence[str], equal: Mapping[str, str]) -> Iterator[pa.Table]:
        """The named columns, and the keys, of the rows whose keys have the wanted values."""
        path = self._layout.table(segment.tbl) / segment.name
        with _refusing(path):
            file = pq.ParquetFile(path, page_checksum_verification=True)
        with file:
            with _refusing(path):
                _check_footer(file, path, segment)
            for group in range(file.num_row_groups):
                with _refusing(path):
                    rows = self._read(file, segment, group, [*dict.fromkeys([*names, *equal])], equal)
                if rows is not None:
                    yield rows

    def _read(
        self, file: pq.ParquetFile, segment: Segment, group: int, names: Sequence[str], equal: Mapping[str, str]
    ) -> pa.Table | None:
        if not all(self._may_hold(file, segment, group, name, value) for name, value in equal.items()):
            return None
        rows = _read_group(file, group, names)
        for name, value in equal.items():
            rows = rows.filter(pc.equal(rows[name], value))
        return rows

    def _may_hold(self, file: pq.ParquetFile, segment: Segment, group: int, name: str, value: str) -> bool:
        """Whether a row group holds keys around the wanted one; seen in its pages, whose checksums hold."""
        place = (segment.name, group, name)
        if place not in self._ranges:
            found = pc.min_max(_read_group(file, group, [name])[name])
            self._ranges[place] = (found["min"].as_py(), found["max"].as_py())
        lowest, highest = self._ranges[place]
        return lowest is not None and highest is not None and lowest <= value <= highest


@contextmanager
def _refusing(path: Path) -> Generator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise StoreError(f"{path}: gone since the snapshot, expected it to stay for readers; read again") from error
    except _UNDECODABLE as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path}: {reason}, expected a whole segment; run roundhouse verify") from error


def _read_group(file: pq.ParquetFile, group: int, names: Sequence[str]) -> pa.Table:
    rows = file.read_row_group(group, columns=[*names])
    expected = file.metadata.row_group(group).num_rows
    if rows.num_rows != expected or rows.column_names != [*names]:
        raise ValueError(f"row group {group} has {rows.num_rows} rows of {rows.column_names}, not {expected}")
    return rows


def _check_footer(file: pq.ParquetFile, path: Path, segment: Segment) -> None:
    groups = sum(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))
    for what, found, expected in (
        ("bytes", path.stat().st_size, segment.byte_count),
        ("rows", file.metadata.num_rows, segment.row_count),
        ("rows in its groups", groups, segment.row_count),
    ):
        if found != expected:
            raise ValueError(f"{found} {what}, {expected} as sealed")
    if not file.schema_arrow.equals(stored_schema(segment.tbl)):
        raise ValueError(f"its columns are not those of {segment.tbl}")
