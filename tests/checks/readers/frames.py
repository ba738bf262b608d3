"""What a log gives, whole, so that two logs can be compared."""

from pathlib import Path

import polars as pl

from checks.columns import FLOATS, SCHEMAS, SCORE_COLUMNS
from checks.log import Log
from checks.readers.open_log import open_log


def whole(log: Log | Path, columns: list[str] | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All turns, and all scores with their `turn_id`, however a form keeps them; lists of floats as float64."""
    opened = open_log(log) if isinstance(log, Path) else log
    turns: list[pl.DataFrame] = []
    scores: list[pl.DataFrame] = []
    wanted = [name for name in columns or SCHEMAS["turns"] if name not in ("place", "more_scores")]
    for batch in opened.batches(list(dict.fromkeys(["turn_id", *wanted])), SCORE_COLUMNS):
        turns.append(batch.turns)
        owner = batch.turns["turn_id"].gather(batch.scores["row"])
        scores.append(batch.scores.drop("row").insert_column(0, owner))
    return _widened(turns), _widened(scores)


def _widened(frames: list[pl.DataFrame]) -> pl.DataFrame:
    joined = pl.concat(frames, how="vertical_relaxed")
    lists = [name for name, dtype in joined.schema.items() if dtype == pl.List(pl.Float32)]
    return joined.with_columns(pl.col(lists).cast(FLOATS))
