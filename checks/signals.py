"""The eight debugging signals as series: per adapter, by optimizer step, from whatever of a log holds them."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import polars as pl

from checks.eval_points import eval_points
from checks.one_source import one_source
from checks.pass_points import pass_points
from checks.stall_intervals import stall_by_step
from checks.token_signals import SCHEMA as TOKENS
from checks.train_rewards import at_evaluations, by_step, train_rewards

ESTIMATE = "entropy_sampled_estimate"
"""The part that entropy is seen by where only sampled tokens tell of it."""


class Part(NamedTuple):
    """One series of a signal."""

    name: str
    """As the column of `steps` is called, or `reward_eval_gap`, or `ESTIMATE`."""
    worse: Literal["up", "down", "either"]
    """Which way is bad."""
    log: bool = False
    """Whether it varies by factors rather than by amounts."""
    floor: float = 0.0
    """Least standard deviation of one sample that is believed, in its unit."""
    zero_is_idle: bool = False
    """Whether a 0 is a step in which nothing happened, and says nothing of the others."""


class Signal(NamedTuple):
    """One of the eight signals."""

    name: str
    parts: tuple[Part, ...]
    """What it is seen by; the first is the signal itself, the others stand beside it."""
    source: str
    """The column of the log that would supply it."""
    evaluation: bool = False
    """Whether each point is measured on samples of its own, as held-out evaluation is."""


SIGNALS: tuple[Signal, ...] = (
    Signal(
        "max_w",
        (Part("max_w", "up", True), Part("min_w", "down", True), Part("kl_mu_old", "up"), Part("ess", "down")),
        "steps.max_w",
    ),
    Signal("staleness", (Part("staleness_mean", "up", floor=0.05),), "steps.staleness_mean"),
    Signal("stall", (Part("stall_s", "up", True),), "steps.wait_s"),
    Signal("mfu", (Part("mfu", "down"),), "steps.mfu"),
    Signal("reward_eval_gap", (Part("reward_eval_gap", "up"), Part("reward_eval", "down")), "evals.score", True),
    Signal("pass_at_k", (Part("pass_at_k", "down"),), "evals.passed", True),
    Signal("entropy", (Part("entropy", "either"), Part(ESTIMATE, "either")), "steps.entropy"),
    Signal("grad_norm", (Part("grad_norm", "up", True, zero_is_idle=True),), "steps.grad_norm"),
)
"""In the order of the console's lanes."""

SCHEMA = {"adapter": pl.String, "signal": pl.String, "part": pl.String, "step": pl.Int64, "value": pl.Float64}
_OF_TOKENS = ("max_w", "min_w", "kl_mu_old", "ess", "staleness_mean")
"""Parts that the tokens tell too, and tell better."""


def signal_series(
    turns: pl.DataFrame,
    rewards: pl.DataFrame,
    steps: pl.DataFrame,
    evals: pl.DataFrame,
    spans: pl.DataFrame,
    versions: pl.DataFrame,
    *,
    tokens: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Rows of `adapter, signal, part, step, value`, sorted; NaN where the log says NaN, no row where it says nothing.

    A step that is logged twice counts as it was logged last. `tokens` is what `token_signals` gives, or some columns of
    it. The tokens are the raw truth and stand before what `steps` holds, unless they tell of less than half as many
    steps; a series is of one source only. The estimate of the entropy from sampled tokens comes last, and under its own
    name. Rows without an adapter belong to the only one there is.
    """
    tokens = pl.concat([pl.DataFrame(schema=TOKENS), *([] if tokens is None else [tokens])], how="diagonal")
    turns, steps, evals, spans, versions, tokens = named((turns, steps, evals, spans, versions, tokens))
    parts = _of_tokens(tokens, steps) | entropy_points(tokens, steps)
    parts["grad_norm"] = by_step(steps, pl.col("grad_norm"))
    parts["mfu"] = by_step(steps, mfu_of_step())
    parts["stall_s"] = stall_by_step(steps, spans)
    parts["reward_eval"] = held_out = eval_points(evals, versions, steps)
    train = train_rewards(turns, rewards, steps, versions) if held_out.height else held_out
    parts["reward_eval_gap"] = at_evaluations(train, held_out).with_columns(value=pl.col("train") - pl.col("value"))
    parts["pass_at_k"] = pass_points(evals, versions, steps)
    series = [
        parts[part.name].select(
            pl.col("adapter").cast(pl.String),
            pl.lit(signal.name).alias("signal"),
            pl.lit(part.name).alias("part"),
            pl.col("step").cast(pl.Int64),
            pl.col("value").cast(pl.Float64),
        )
        for signal in SIGNALS
        for part in signal.parts
    ]
    return pl.concat([pl.DataFrame(schema=SCHEMA), *series])


def _of_tokens(tokens: pl.DataFrame, steps: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """`adapter, step, value` of each part that tokens tell too."""
    last = pl.col(_OF_TOKENS).drop_nulls().last()
    logged = steps.select("adapter", "step", *_OF_TOKENS).group_by("adapter", "step").agg(last)
    return {name: one_source(_of(tokens, name), _of(logged, name)) for name in _OF_TOKENS}


def entropy_points(tokens: pl.DataFrame, steps: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """`adapter, step, value` of `entropy` and of `ESTIMATE`; no adapter is in both."""
    sources = (_of(tokens, "entropy"), by_step(steps, pl.col("entropy")), _of(tokens, ESTIMATE))
    points = one_source(*sources)
    estimated = pl.col("source") == len(sources) - 1
    return {"entropy": points.filter(~estimated), ESTIMATE: points.filter(estimated)}


def _of(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    return frame.select("adapter", "step", value=name)


def mfu_of_step() -> pl.Expr:
    """Model FLOPs over what the device could have done in the step's time; else the logged figure."""
    counted = pl.col("model_flops") / (pl.col("duration_s") * pl.col("peak_flops"))
    return pl.coalesce(counted, pl.col("mfu"))


def named(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """The frames with the adapter filled in where the whole log knows one only."""
    columns = [frame["adapter"].cast(pl.String) for frame in frames if "adapter" in frame.columns]
    names = pl.concat(columns).drop_nulls().unique()
    if len(names) != 1:
        return [frame.with_columns(pl.col("adapter").cast(pl.String)) for frame in frames]
    return [frame.with_columns(pl.col("adapter").cast(pl.String).fill_null(names[0])) for frame in frames]
