"""Plots of importance weights: log w by position, its histogram by lag, and the largest w by step."""

import numpy as np
import polars as pl

from checks.finding import Series
from checks.lag import with_lag
from checks.measures.importance_weights import POSITIONS
from checks.measures.parts import part
from checks.measures.weight_sums import BIN_WIDTH, HISTOGRAM_BINS
from checks.one_source import one_source
from checks.signals import named
from checks.step_curves import step_curves
from checks.token_signals import token_signals
from checks.train_rewards import by_step

_LAGS_DRAWN = 6


def by_position(weights: pl.DataFrame) -> list[Series]:
    """Mean, least and greatest log w by position in the completion."""
    rows = part(weights, "positions").sort("position")
    x = tuple(np.asarray(POSITIONS, dtype=float)[rows["position"].to_numpy()].tolist())
    curves = {"mean": rows["sum_d"] / rows["n"], "min": rows["min_d"], "max": rows["max_d"]}
    return [
        Series(
            name=f"log w by position, {name}",
            x_label="first token of the range",
            y_label="log w",
            x=x,
            y=tuple(values.to_list()),
        )
        for name, values in curves.items()
    ]


def histograms(weights: pl.DataFrame, versions: pl.DataFrame) -> list[Series]:
    """Share of tokens by log w, for each of the smallest lags."""
    rows = with_lag(part(weights, "histogram"), versions).group_by("lag", "bin").agg(pl.col("n").sum())
    drawn: list[Series] = []
    for lag in rows["lag"].unique().sort(nulls_last=True).to_list()[:_LAGS_DRAWN]:
        counts = dict(rows.filter(pl.col("lag").eq_missing(lag)).select("bin", "n").iter_rows())
        total = sum(counts.values())
        drawn.append(
            Series(
                name=f"log w at {'unknown lag' if lag is None else f'lag {lag}'}",
                x_label="log w (the outer bars hold what lies beyond)",
                y_label="share of tokens",
                x=tuple((index + 0.5 - HISTOGRAM_BINS / 2) * BIN_WIDTH for index in range(HISTOGRAM_BINS)),
                y=tuple(counts.get(index, 0) / total for index in range(HISTOGRAM_BINS)),
                kind="bars",
            )
        )
    return drawn


def max_w_by_step(weights: pl.DataFrame, versions: pl.DataFrame, steps: pl.DataFrame) -> tuple[Series, ...]:
    """The largest w of each step, of the tokens or as the trainer logged it."""
    nothing = pl.DataFrame()
    tokens, steps = named((token_signals(weights, nothing, nothing, versions), steps))
    measured = tokens.select("adapter", "step", value="max_w")
    return step_curves(one_source(measured, by_step(steps, pl.col("max_w"))), "max w", "w")
