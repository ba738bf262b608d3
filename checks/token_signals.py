"""The signals that tokens themselves tell, by adapter and by the optimizer step that trained on them."""

import polars as pl

from checks.lag import with_lag
from checks.measures.parts import part
from checks.trained_step import trained_step

_KEYS = ("adapter", "step")
COLUMNS = ("max_w", "min_w", "kl_mu_old", "ess", "staleness_mean", "entropy", "entropy_sampled_estimate")
SCHEMA = {"adapter": pl.String, "step": pl.Int64, **dict.fromkeys(COLUMNS, pl.Float64)}


def token_signals(
    weights: pl.DataFrame, lags: pl.DataFrame, entropies: pl.DataFrame, versions: pl.DataFrame
) -> pl.DataFrame:
    """`adapter, step` and `COLUMNS`, from the measures over tokens; null where they do not tell."""
    found = [pl.DataFrame(schema=SCHEMA)]
    if "cells" in weights.columns:
        found.append(weights_by_step(part(weights, "cells"), versions))
    if "cells" in lags.columns:
        found.append(staleness_by_step(with_lag(part(lags, "cells"), versions), versions))
    if "steps" in entropies.columns:
        found.append(entropy_by_step(part(entropies, "steps"), versions))
    first = [pl.col(name).drop_nulls().first() for name in COLUMNS]
    return pl.concat(found, how="diagonal").group_by(_KEYS).agg(first).sort(_KEYS)


def weights_by_step(cells: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, max_w, min_w, kl_mu_old, ess` of the cells of the measure `importance_weights`."""
    sums = [pl.col(name).sum() for name in ("n", "sum_d", "sum_w", "sum_w2")]
    added = _stepped(cells, versions).group_by(_KEYS).agg(*sums, pl.col("min_d").min(), pl.col("max_d").max())
    ess = pl.col("sum_w") / pl.col("sum_w2") * (pl.col("sum_w") / pl.col("n"))
    return added.select(
        *_KEYS,
        max_w=pl.col("max_d").exp(),
        min_w=pl.col("min_d").exp(),
        kl_mu_old=-pl.col("sum_d") / pl.col("n") + 0.0,
        ess=pl.when(pl.col("sum_w2").is_finite() & (pl.col("sum_w2") > 0)).then(ess),
    )


def staleness_by_step(lagged: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, staleness_mean` of the cells of the measure `token_lags`, with their lag."""
    known = _stepped(lagged.drop_nulls("lag"), versions)
    mean = (pl.col("tokens") * pl.col("lag")).sum() / pl.col("tokens").sum()
    return known.group_by(_KEYS).agg(staleness_mean=mean.cast(pl.Float64))


def entropy_by_step(sums: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, entropy, entropy_sampled_estimate` of the sums of the measure `entropies`."""
    full, sampled = pl.col("entropy_tokens").sum(), pl.col("sampled_tokens").sum()
    of_full, of_sampled = pl.col("entropy_sum").sum() / full, -pl.col("sampled_sum").sum() / sampled + 0.0
    means = pl.when(full > 0).then(of_full), pl.when(sampled > 0).then(of_sampled)
    return _stepped(sums, versions).group_by(_KEYS).agg(entropy=means[0], entropy_sampled_estimate=means[1])


def _stepped(frame: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """The rows of a known step."""
    return frame.with_columns(pl.col("adapter").cast(pl.String), step=trained_step(versions)).drop_nulls("step")
