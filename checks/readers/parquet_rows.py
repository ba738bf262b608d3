"""Rows of a Parquet file that somebody else wrote, a few at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow
import pyarrow.parquet

from checks.readers.unreadable import UnreadableParts

# Any: pyarrow has no types.
_ARROW: Any = pyarrow
_PARQUET: Any = pyarrow.parquet
_DAMAGED: tuple[type[Exception], ...] = (OSError, ValueError, OverflowError, _ARROW.ArrowException)
"""What pyarrow raises on a file that is not what it says."""


def column_names(path: Path) -> frozenset[str]:
    """The columns of a file; empty for a damaged one."""
    try:
        return frozenset(cast(list[str], _PARQUET.read_schema(path).names))
    except _DAMAGED:
        return frozenset()


# Any: values of whatever types the columns have.
def parquet_rows(
    path: Path, unreadable: UnreadableParts, *, batch_rows: int, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number (from 0) and values of each row, as far as the file can be read."""
    row = 0
    try:
        with _PARQUET.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=batch_rows, columns=columns):
                for record in batch.to_pylist():
                    row += 1
                    yield row - 1, record
    except _DAMAGED as error:
        unreadable.add(f"{path.name}[{row}]", f"Parquet cannot be read on: {error}; the rows before it were read")
