"""Held-out evaluation by optimizer step: which step a sample belongs to, and the mean score of each step."""

import polars as pl

from checks.eval_suites import of_first_suite


def stepped(evals: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """The samples with the optimizer step of the weights they are of, `points` and `solved`.

    The step is the one that the log says, else the version's, else the version number itself. `points` is the score,
    else 1 or 0 for passed or not; `solved` is whether it passed, else whether it scored 1.
    """
    known = versions.select("adapter", "version", "optimizer_step").unique(["adapter", "version"], keep="last")
    joined = evals.join(known, on=["adapter", "version"], how="left", nulls_equal=True, maintain_order="left")
    score = pl.col("score").cast(pl.Float64)
    passed = pl.col("passed").cast(pl.Boolean)
    return joined.with_columns(
        step=pl.coalesce(pl.col("step"), pl.col("optimizer_step"), pl.col("version")).cast(pl.Int64),
        points=pl.coalesce(score, passed.cast(pl.Float64)),
        solved=pl.coalesce(passed, pl.when(score.is_finite()).then(score >= 1)),
    )


def eval_points(evals: pl.DataFrame, versions: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, value`: the mean score of the tasks of one suite; else what `steps` holds as reward_eval."""
    samples = of_first_suite(stepped(evals, versions))
    scored = samples.drop_nulls(["step", "points"]).filter(pl.col("points").is_finite())
    if scored.is_empty():
        known = steps.select("adapter", "step", value=pl.col("reward_eval")).drop_nulls("value")
        return known.unique(["adapter", "step"], keep="last").sort("adapter", "step")
    by_task = scored.group_by("adapter", "step", "task_id").agg(pl.col("points").mean())
    return by_task.group_by("adapter", "step").agg(value=pl.col("points").mean()).sort("adapter", "step")
