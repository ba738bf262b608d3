"""One reward per session, from the turns that carry it and the table of rewards, and where they disagree."""

import polars as pl

from checks.group_advantage import ABSOLUTE, RELATIVE

NOT_TRAINED = ("eval", "probe")
"""Purposes whose turns give no training reward."""


def session_rewards(turns: pl.DataFrame, rewards: pl.DataFrame) -> pl.DataFrame:
    """One row for each session of training turns, in the log's order.

    `session_id`; `reward`, null where none is observed or the observed ones disagree; `lowest` and `highest` observed;
    `disagrees`; `not_finite` where a NaN or infinity stands for a reward. A reward of one turn is not the session's; of
    those closed at different times the last one counts.
    """
    trained = turns.filter(~pl.col("purpose").is_in(NOT_TRAINED).fill_null(False))
    sessions = trained.select("session_id").unique(maintain_order=True)
    on_turns = trained.select("session_id", pl.col("reward").cast(pl.Float64).alias("value"))
    whole = latest_rewards(rewards.filter(pl.col("turn_id").is_null()))
    whole = whole.select("session_id", pl.col("value").cast(pl.Float64))
    observed = pl.concat([on_turns, whole]).drop_nulls("value")
    finite = pl.col("value").is_finite()
    folded = observed.group_by("session_id").agg(
        lowest=pl.col("value").filter(finite).min(),
        highest=pl.col("value").filter(finite).max(),
        not_finite=(~finite).any(),
    )
    lowest, highest = pl.col("lowest"), pl.col("highest")
    apart = highest - lowest > _tolerance(lowest, highest)
    joined = sessions.join(folded, on="session_id", how="left", maintain_order="left")
    known = joined.with_columns(pl.col("not_finite").fill_null(False), disagrees=apart.fill_null(False))
    alone = ~(pl.col("disagrees") | pl.col("not_finite"))
    return known.with_columns(reward=pl.when(alone).then("highest"))


def latest_rewards(rewards: pl.DataFrame) -> pl.DataFrame:
    """Less what a later window of the same session, or of the same turn, replaced: what goes on is judged anew.

    Those that closed together, or of which it is not known when, are all there.
    """
    at = pl.col("closed_at")
    return rewards.filter(at.is_null() | (at == at.max().over("session_id", "turn_id")))


def one_reward_each(rewards: pl.DataFrame) -> pl.DataFrame:
    """The one reward that counts of each session, and of each turn that has its own, as its last record.

    As for `session_rewards` there is none where those that count disagree, or one of them is no finite number.
    """
    key, value = ("session_id", "turn_id"), pl.col("value").cast(pl.Float64)
    counting = latest_rewards(rewards).drop_nulls("value").sort("closed_at", nulls_last=False, maintain_order=True)
    alike = (value.max() - value.min() <= _tolerance(value.min(), value.max())) & value.is_finite().all()
    return counting.filter(alike.over(key)).unique(key, keep="last", maintain_order=True)


def _tolerance(lowest: pl.Expr, highest: pl.Expr) -> pl.Expr:
    """How far rewards may lie apart that are one reward but for rounding."""
    return pl.max_horizontal(ABSOLUTE, RELATIVE * pl.max_horizontal(lowest.abs(), highest.abs()))
