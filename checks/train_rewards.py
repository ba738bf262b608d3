"""Train reward by optimizer step, and its level at each held-out evaluation."""

import numpy as np
import polars as pl

from checks.one_source import one_source
from checks.session_rewards import session_rewards
from checks.trained_step import trained_step

TURN_COLUMNS = ("adapter", "trainer_step", "trainer_version", "purpose", "reward")
"""Columns of `turns` that `train_rewards` reads, beside session_id."""


def train_rewards(
    turns: pl.DataFrame, rewards: pl.DataFrame, steps: pl.DataFrame, versions: pl.DataFrame
) -> pl.DataFrame:
    """`adapter, step, value`: the mean reward of each step's batch, else of the sessions trained in it."""
    logged = by_step(steps, pl.col("reward_mean"))
    if logged["adapter"].null_count() or turns.is_empty():
        return logged
    sources = [logged] if _tells_most(logged, turns, versions) else [logged, _of_sessions(turns, rewards, versions)]
    return one_source(*sources).select(logged.columns)


def _tells_most(logged: pl.DataFrame, turns: pl.DataFrame, versions: pl.DataFrame) -> bool:
    """Whether sessions could not tell of more than twice as many steps, of any adapter: they are not asked then."""
    known = dict(logged.drop_nulls("step").group_by("adapter").len().iter_rows())
    trained = turns.select("adapter", step=trained_step(versions)).drop_nulls("step")
    most = trained.group_by(pl.col("adapter").cast(pl.String)).agg(pl.col("step").n_unique())
    return all(2 * known.get(adapter, 0) >= steps for adapter, steps in most.iter_rows())


def _of_sessions(turns: pl.DataFrame, rewards: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, value`: the mean reward of the sessions trained in each step, a session at its first one."""
    trained = turns.with_columns(step=trained_step(versions)).drop_nulls("step")
    first = trained.group_by("session_id", maintain_order=True).agg(
        pl.col("adapter").drop_nulls().first().cast(pl.String), pl.col("step").first()
    )
    if first.is_empty():
        return pl.DataFrame(schema={"adapter": pl.String, "step": pl.Int64, "value": pl.Float64})
    rewarded = session_rewards(turns, rewards).drop_nulls("reward")
    joined = rewarded.join(first, on="session_id", how="inner")
    return joined.group_by("adapter", "step").agg(value=pl.col("reward").mean()).sort("adapter", "step")


def by_step(steps: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """`adapter, step, value` of one quantity, the last one logged for each step."""
    known = steps.select("adapter", "step", value=value.cast(pl.Float64)).drop_nulls("value")
    return known.unique(["adapter", "step"], keep="last").sort("adapter", "step")


def at_evaluations(train: pl.DataFrame, held_out: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, value, train`: each evaluation with the mean train reward since the one before it.

    Evaluations without train reward since the one before are left out.
    """
    whole = [
        _of_adapter(
            train.filter(pl.col("adapter").eq_missing(adapter), pl.col("value").is_finite()).sort("step"),
            held_out.filter(pl.col("adapter").eq_missing(adapter)).sort("step"),
        )
        for adapter in held_out["adapter"].unique(maintain_order=True)
    ]
    return pl.concat([held_out.with_columns(train=pl.lit(0.0)).clear(), *whole])


def _of_adapter(train: pl.DataFrame, held_out: pl.DataFrame) -> pl.DataFrame:
    until = np.searchsorted(train["step"].to_numpy(), held_out["step"].to_numpy(), side="right")
    since = np.concatenate([[0], until[:-1]])
    total = np.concatenate([[0.0], np.cumsum(train["value"].to_numpy())])
    with np.errstate(invalid="ignore"):
        means = (total[until] - total[since]) / (until - since)
    return held_out.with_columns(train=pl.Series(means, dtype=pl.Float64)).filter(pl.Series(until > since))
