"""The judgements that count, of all that were given."""

import polars as pl


def standing_feedback(feedback: pl.DataFrame) -> pl.DataFrame:
    """Each judgement once, as it first came, without those that another one supersedes, wherever that was given."""
    once = _once(feedback)
    return once.filter(~pl.col("feedback_id").is_in(superseded(feedback)["feedback_id"].implode()).fill_null(False))


def superseded(feedback: pl.DataFrame) -> pl.DataFrame:
    """The judgements that another one supersedes, each once."""
    once = _once(feedback)
    gone = once.filter(pl.col("supersedes") != pl.col("feedback_id"))["supersedes"]
    return once.filter(pl.col("feedback_id").is_in(gone.implode()))


def _once(feedback: pl.DataFrame) -> pl.DataFrame:
    name = pl.col("feedback_id")
    return feedback.filter(name.is_null() | name.is_first_distinct())
