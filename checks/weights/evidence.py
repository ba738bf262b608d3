"""The turns whose importance weights are at fault, each at its worst token."""

from typing import Any

import numpy as np
import polars as pl

from checks.finding import Evidence, Status
from checks.lag import with_lag
from checks.measures.importance_weights import CELL
from checks.measures.parts import part
from checks.measures.weight_causes import CAUSES
from checks.weights.kinds import GROUP, with_kinds
from checks.weights.numbers import LEAST_TOKENS, WeightLimits

_PADDED = "mu is exactly 1, and the trainer doubts the token: a 0 that was filled in, not sampled"


def turns_at_fault(
    weights: pl.DataFrame, versions: pl.DataFrame, cells: pl.DataFrame, at_fault: pl.DataFrame, limits: WeightLimits
) -> pl.DataFrame:
    """The worst token of each turn at fault, for `turn_evidence`: in a lag at fault, or beyond a failure limit by
    itself."""
    turns = with_lag(part(weights, "turns"), versions)
    causes = with_lag(part(weights, "causes"), versions) if "causes" in weights.columns else None
    kinds = with_kinds(cells, causes if causes is not None else _no_causes(cells))
    lags = at_fault.select("adapter", "lag", in_lag=pl.lit(True), lag_status=pl.col("status"))
    mean, share = pl.col("sum_abs") / pl.col("n"), pl.col("confident") / pl.col("n")
    beyond = (mean > limits.mean_abs[1]) | ((share > limits.confident[1]) & (pl.col("confident") >= 2))
    far = (pl.col("log_w").abs() > np.log(2.0)) | (mean > limits.mean_abs[0])
    padded = ((pl.col("lag") == 0) & (pl.col("mu") == 0.0) & (pl.col("log_w") < -2.0)).fill_null(False)
    return (
        turns.with_columns(of_base=pl.col("sampling_version") == 0, by_itself=beyond & (pl.col("n") >= LEAST_TOKENS))
        .join(lags, on=["adapter", "lag"], how="left", nulls_equal=True, maintain_order="left")
        .join(kinds, on=GROUP, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(first=pl.int_range(pl.len()).over("adapter", "lag") == 0)
        .filter(pl.col("by_itself") | (pl.col("in_lag") & (far | pl.col("first"))))
        .unique(["session_id", "turn"], keep="first", maintain_order=True)
        .with_columns(
            kind=pl.when(padded).then(pl.lit("zero_padded")).otherwise("kind"),
            why=pl.when(padded).then(pl.lit(_PADDED)).otherwise("why"),
        )
    )


def turn_evidence(found: pl.DataFrame) -> tuple[Evidence, ...]:
    """What is said of each turn at fault."""
    return tuple(_evidence(row) for row in found.iter_rows(named=True))


def _no_causes(cells: pl.DataFrame) -> pl.DataFrame:
    return cells.select(*CELL, "lag").clear().with_columns(pl.lit(None, pl.Float64).alias(name) for name in CAUSES)


def _evidence(row: dict[str, Any]) -> Evidence:
    with np.errstate(over="ignore"):
        w = float(np.exp(row["log_w"]))
    detail = {
        "lag": row["lag"],
        "sampled_logprob": row["mu"],
        "trainer_logprob": row["mu"] + row["log_w"],
        "mean_abs_dlogp": row["sum_abs"] / row["n"],
        "tokens": row["n"],
        "trainer_step": row["trainer_step"],
        "temperature": row["temperature"],
    }
    status: Status = "fail" if row["lag_status"] == "fail" else "warn"
    return Evidence(
        session_id=row["session_id"],
        turn=row["turn"],
        token_index=row["token_index"],
        adapter=row["adapter"],
        kind=row["kind"],
        status=status,
        value=w,
        text=f"w {w:.3g}: {row['why']}",
        detail=detail,
    )


def not_finite(weights: pl.DataFrame) -> pl.DataFrame:
    """Turns with tokens whose log w is no finite number, each at the first, for `bad_evidence`."""
    return part(weights, "bad") if "bad" in weights.columns else pl.DataFrame()


def bad_evidence(found: pl.DataFrame) -> tuple[Evidence, ...]:
    """What is said of each turn without a finite ratio."""
    return tuple(
        Evidence(
            session_id=row["session_id"],
            turn=row["turn"],
            token_index=row["token_index"],
            kind="not_finite",
            status="fail",
            text=f"{row['tokens']} tokens without a finite ratio; here mu {row['mu']:g}, pi_old {row['old']:g} (log)",
            detail={"tokens": row["tokens"]},
        )
        for row in found.iter_rows(named=True)
    )
