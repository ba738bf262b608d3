"""Train reward by optimizer step, and its level at each held-out evaluation."""

import numpy as np
import polars as pl

from checks.session_rewards import session_rewards


def train_rewards(turns: pl.DataFrame, rewards: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, value`: the mean reward of each step's batch, else of the sessions trained in it."""
    logged = by_step(steps, pl.col("reward_mean"))
    if logged.height:
        return logged
    by_session = session_rewards(turns, rewards).drop_nulls("reward")
    trained = turns.group_by("session_id", maintain_order=True).agg(
        pl.col("adapter").drop_nulls().first().cast(pl.String), pl.col("trainer_step").drop_nulls().first()
    )
    joined = by_session.join(trained.drop_nulls("trainer_step"), on="session_id", how="inner")
    means = joined.group_by("adapter", step="trainer_step").agg(value=pl.col("reward").mean())
    return means.sort("adapter", "step")


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
