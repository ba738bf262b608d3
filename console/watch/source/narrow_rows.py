"""Stored rows as narrow frames: the long columns are counted where they come from, and left there."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false
# (pyarrow carries no types)

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from checks.bounded import bounded
from checks.readers.tables import frame_of_arrow
from collector.store.columns import record_schema
from collector.store.turn_columns import PROMPT_LOST
from console.watch.held import LONG, TABLES

_COUNTED = ("prompt_prefix_tokens", "new_prompt_ids", "completion_ids")
"""Stored columns of turns that the counts of tokens are made of."""
SCORES = ("turn_id", "trainer_step", "trainer_version", "writer", "seq")
"""What is read of scores."""


def columns_to_read(table: str) -> list[str]:
    """The columns of a table that a snapshot is asked for."""
    if table == "scores":
        return [*SCORES]
    held = [name for name in record_schema(table).names if name in TABLES[table] and name not in LONG]
    return [*held, *_COUNTED] if table == "turns" else held


def narrow(table: str, rows: pa.RecordBatch | pa.Table) -> pl.DataFrame:
    """The rows that a snapshot gave, or that were opened from a journal, with counts in the place of lists."""
    wanted = [name for name in columns_to_read(table) if name not in _COUNTED]
    columns = {name: rows[name] for name in wanted}
    if table == "turns":
        new = pc.cast(pc.list_value_length(rows["new_prompt_ids"]), pa.int64())
        prompt = pc.add(rows["prompt_prefix_tokens"], new)
        lost = pc.fill_null(pc.equal(rows["untrainable_reason"], PROMPT_LOST), False)
        columns["prompt_tokens"] = pc.if_else(lost, pa.scalar(None, pa.int64()), prompt)
        columns["completion_tokens"] = pc.cast(pc.list_value_length(rows["completion_ids"]), pa.int64())
    return bounded(frame_of_arrow(pa.table(columns)))
