"""The optimizer step that trained on something."""

import polars as pl


def trained_step(versions: pl.DataFrame) -> pl.Expr:
    """Of a frame with adapter, trainer_step and trainer_version: the step, Int64, on the axis of `steps`.

    Where the adapter's versions have steps of their own, `trainer_step` is the step that the scoring weights stood at
    (a version saved at step 40 scores at 40), and steps are counted from 1: what was scored at 40 was trained on in
    step 41, whose record has the gradient norm of that same update. Other trainers give a step and what it trained on
    one number. Where only the version is known it is read as a step in their way, if the adapter's versions have no
    steps of their own: those would be of when the version was saved, not of what it was trained on next.
    """
    in_steps = versions.drop_nulls("optimizer_step")["adapter"].cast(pl.String).unique()
    known = pl.col("adapter").cast(pl.String).is_in(in_steps.to_list()).fill_null(False)
    version = pl.when(~known).then(pl.col("trainer_version").cast(pl.Int64))
    return pl.coalesce(pl.col("trainer_step").cast(pl.Int64) + known.cast(pl.Int64), version)
