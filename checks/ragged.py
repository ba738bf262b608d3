"""List columns as flat NumPy arrays: values, and where each row begins."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from typing import Any, NamedTuple

import numpy as np
import polars as pl

# Any: NumPy's own generic parameter for an element type fixed by whoever reads the column.
Array = np.ndarray[Any, np.dtype[Any]]


class Ragged(NamedTuple):
    """Rows of unequal length, one after the other."""

    values: Array
    """All values, row after row; those of null rows are not in it."""
    offsets: Array
    """int64, one more than there are rows: row i is values[offsets[i]:offsets[i + 1]]."""
    valid: Array
    """bool per row: False where the row is null, which is not the same as empty."""

    @property
    def lengths(self) -> Array:
        """Values per row; 0 for a null row."""
        return np.diff(self.offsets)

    def row(self, index: int) -> Array:
        """The values of one row, not copied."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]


def ragged(column: pl.Series) -> Ragged:
    """A list column of numbers, without a copy where Arrow has none to make. A null inside a list becomes NaN."""
    valid = column.is_not_null().to_numpy()
    arrow = column.to_arrow()
    offsets = arrow.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    inner = arrow.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    offsets = offsets - offsets[0]
    values = inner.to_numpy(zero_copy_only=False)
    lengths = np.diff(offsets)
    if (lengths[~valid] > 0).any():
        values = values[np.repeat(valid, lengths)]
        offsets = np.concatenate([[0], np.cumsum(np.where(valid, lengths, 0))])
    return Ragged(values, offsets, valid)
