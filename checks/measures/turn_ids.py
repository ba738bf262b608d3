"""The ids of a batch's turns, row by row, as arrays and as bytes."""

from typing import NamedTuple

import numpy as np
import polars as pl

from checks.ragged import Array, Ragged, ragged


class TurnIds(NamedTuple):
    """The turns of a batch, by row."""

    rows: list[int]
    """Those whose prompt is logged as ids."""
    sessions: list[str]
    numbers: list[int]
    failed: list[bool]
    """Not completed, or nothing sampled."""
    prompts: Ragged
    completions: Ragged

    @classmethod
    def of(cls, turns: pl.DataFrame) -> "TurnIds":
        """Reads the columns of a batch."""
        prompts, completions = _ids(turns["prompt_ids"]), _ids(turns["completion_ids"])
        whole = turns["complete"].cast(pl.Boolean).fill_null(True).to_numpy()
        failed = ~whole | (completions.lengths == 0)
        rows = np.flatnonzero(prompts.valid).tolist()
        sessions, numbers = turns["session_id"].to_list(), turns["turn"].to_list()
        return cls(rows, sessions, numbers, failed.tolist(), prompts, completions)


class IdBytes(NamedTuple):
    """Rows of ids as bytes."""

    values: memoryview
    offsets: list[int]

    @classmethod
    def of(cls, ids: Ragged) -> "IdBytes":
        """Rows of int32."""
        return cls(bytes_of(ids.values), (ids.offsets * ids.values.itemsize).tolist())

    def row(self, index: int) -> memoryview:
        """The ids of one row, not copied."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]


def _ids(column: pl.Series) -> Ragged:
    """A column of ids as int32; an id that is null is -1, which is nobody's."""
    if column.list.explode(empty_as_null=False).null_count():
        column = column.list.eval(pl.element().fill_null(-1))
    return ragged(column.cast(pl.List(pl.Int32)))


def bytes_of(ids: Array) -> memoryview:
    """Ids as bytes, not copied."""
    return ids.data.cast("B") if len(ids) else memoryview(b"")
