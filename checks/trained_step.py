"""The optimizer step that trained on something."""

import polars as pl


def trained_step(versions: pl.DataFrame) -> pl.Expr:
    """Of a frame with adapter, trainer_step and trainer_version: the step, Int64.

    Where only the version is known it is read as a step, if the adapter's versions have no steps of their own: those
    would be of when the version was saved, not of what it was trained on next.
    """
    in_steps = versions.drop_nulls("optimizer_step")["adapter"].cast(pl.String).unique()
    known = pl.col("adapter").cast(pl.String).is_in(in_steps.to_list()).fill_null(False)
    version = pl.when(~known).then(pl.col("trainer_version").cast(pl.Int64))
    return pl.coalesce(pl.col("trainer_step").cast(pl.Int64), version)
