"""pass@k by optimizer step, from the samples of held-out tasks."""

import functools

import polars as pl

from checks.eval_points import stepped
from checks.eval_suites import of_first_suite
from checks.pass_rate import pass_at_k

SCHEMA = {"adapter": pl.String, "step": pl.Int64, "value": pl.Float64}


def task_counts(samples: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, task_id, samples, successes` of samples of one suite that say `solved`."""
    known = samples.drop_nulls("solved")
    return known.group_by("adapter", "step", "task_id", maintain_order=True).agg(
        samples=pl.len().cast(pl.Int64), successes=pl.col("solved").sum().cast(pl.Int64)
    )


def with_rate(counts: pl.DataFrame, k: int) -> pl.DataFrame:
    """The tasks that have k samples, with their pass@k as `rate`."""
    enough = counts.filter(pl.col("samples") >= k)
    rate = functools.cache(pass_at_k)
    rates = [rate(samples, successes, k) for samples, successes in enough.select("samples", "successes").iter_rows()]
    return enough.with_columns(rate=pl.Series(rates, dtype=pl.Float64))


def widest_k(counts: pl.DataFrame) -> int:
    """The largest k for which at least half of the tasks have enough samples."""
    ordered = counts["samples"].sort(descending=True)
    return int(ordered[(len(ordered) - 1) // 2]) if len(ordered) else 0


def pass_points(evals: pl.DataFrame, versions: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, value`: the mean pass@k of one suite's tasks, at one k for the whole log; else as in `steps`."""
    counts = task_counts(of_first_suite(stepped(evals, versions))).drop_nulls("step")
    k = widest_k(counts)
    if k > 1:
        rated = with_rate(counts, k)
        return rated.group_by("adapter", "step").agg(value=pl.col("rate").mean()).sort("adapter", "step")
    known = steps.select("adapter", "step", value=pl.col("pass_at_k")).drop_nulls("value")
    return known.unique(["adapter", "step"], keep="last").sort("adapter", "step")
