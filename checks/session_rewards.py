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
    largest = pl.max_horizontal(pl.col("lowest").abs(), pl.col("highest").abs())
    apart = pl.col("highest") - pl.col("lowest") > pl.max_horizontal(ABSOLUTE, RELATIVE * largest)
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
    """The one reward that counts of each session, and of each turn that has its own: the last one, if it has a value.

    Of those that closed together it is the last one logged; one of which it is not known when it closed is earlier.
    """
    in_order = latest_rewards(rewards).sort("closed_at", nulls_last=False, maintain_order=True)
    return in_order.unique(["session_id", "turn_id"], keep="last", maintain_order=True).drop_nulls("value")
