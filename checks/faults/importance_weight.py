"""Importance weights that show the trainer and the engine do not agree on what was sampled."""

from typing import Any

import numpy as np
import polars as pl

from checks.finding import Evidence, Finding, Series, Status, Threshold, kept, worst
from checks.lag import with_lag
from checks.measures.importance_weights import CELL, POSITIONS
from checks.measures.parts import part
from checks.measures.weight_causes import CAUSES
from checks.measures.weight_sums import BIN_WIDTH, HISTOGRAM_BINS
from checks.weight_kinds import GROUP, with_kinds
from checks.weight_numbers import WeightLimits, WeightNumbers, graded, interval, weight_numbers
from checks.weight_steps import logged_faults, logged_metrics

_NEXT = {
    "mismatch_at_equal_version": "what the engine really serves (served-adapter), its dtype, the chat template",
    "stale": "staleness: how many steps lie between sampling and training",
    "unscaled_temperature": "the engine's log-probability mode, and the temperature the trainer scores at",
    "base_model_served": "whether the adapter is loaded and named in each request (served-adapter)",
    "not_finite": "entropy and length-mismatch, then the source of the log-probabilities that are no finite number",
}
LEAST_TOKENS = 16
"""A lag, or a turn, is judged alone from so many tokens on; every token counts in the whole."""
_LAGS_DRAWN = 6


def importance_weight(
    weights: pl.DataFrame,
    versions: pl.DataFrame,
    steps: pl.DataFrame,
    *,
    mean_abs_warn_at: float = 0.03,
    mean_abs_fail_at: float = 0.1,
    kl_warn_at: float = 1e-2,
    kl_fail_at: float = 0.1,
    ess_warn_at: float = 0.5,
    ess_fail_at: float = 0.3,
    confident_warn_at: float = 1e-4,
    confident_fail_at: float = 0.02,
    max_w_warn_at: float = 10.0,
    mean_w_fail_at: float = 2.0,
) -> Finding:
    """Importance weights that show the trainer and the engine do not agree on what was sampled.

    Definition: w = exp(trainer_logprobs - sampled_logprobs) per completion token, in float64, from the numbers as
    logged, never clipped; tokens that a stated loss_mask leaves out do not count. max, min and mean of w;
    k1 = mean(log mu - log pi_old); k3 = mean(w - 1 - log w); ESS = (sum w)^2 / (n sum w^2); mean |log w|; the share of
    confident disagreement (mu >= 0.5 and log w < -2). All per adapter and lag, where the lag is the trainer's step
    less that of the version that sampled the token. The status is that of the worst number of the worst lag with
    16 tokens or more, or of all tokens together; single turns of 16 tokens or more that are beyond a failure limit
    while their lag is not make it a warning. A turn with lists of unequal length has no ratio: it is left out and
    counted. A log-probability that is no finite number (null too) fails as not_finite. Without tokens, the numbers
    that a trainer logged per step are graded instead.
    Kinds: mismatch_at_equal_version (lag 0, or the same version's own scores differ from mu), stale (a larger lag,
    and lag 0 is good or not there), unscaled_temperature (one side's logits were not divided by T: stated as raw, or
    the odds of likely tokens fit that; w keeps the logged numbers), base_model_served (mu is the base model's).
    Units: value is mean |log w| in nats over all tokens; KL in nats; shares and ESS from 0 to 1.
    Reads: turns(completion_ids, sampled_logprobs, loss_mask, adapter, adapter_version, weight_versions, temperature,
    top_p, logprob_mode), scores(trainer_step, trainer_version, trainer_logprobs, sampling_version_logprobs,
    reference_logprobs), versions(optimizer_step), else steps(max_w, min_w, mean_w, kl_mu_old, kl_k3, ess,
    mean_abs_dlogp).
    Threshold: mean |log w| 0.03 (ordinary bf16 rounding and Miles' own tests stay below) and 0.1 (bound of the slime
    and Miles tests); KL 1e-2 (Tinker's guidance) and 0.1 (verl's documentation); ESS below 0.5 (martingale) and 0.3
    (verl); mean w outside 1/2 to 2 (verl); confident disagreement 1e-4 and 2e-2, max w 10: provisional, since rounding
    alone does neither.
    Check next: the kind tells: what the engine serves (served-adapter), staleness, log-probability mode and
    temperature; then length-mismatch and retokenization-drift.
    """
    limits = WeightLimits(
        mean_abs=(mean_abs_warn_at, mean_abs_fail_at),
        kl=(kl_warn_at, kl_fail_at),
        ess=(ess_warn_at, ess_fail_at),
        confident=(confident_warn_at, confident_fail_at),
        max_w=max_w_warn_at,
        mean_w=mean_w_fail_at,
    )
    counts = part(weights, "counts").row(0, named=True) if weights.height else {}
    if "cells" in weights.columns:
        return _of_tokens(weights, versions, counts, limits)
    if counts.get("not_finite"):
        return _only_bad(weights, counts, limits)
    logged = logged_metrics(steps)
    if logged:
        return _of_steps(steps, logged, limits)
    return _nothing(counts)


def _nothing(counts: dict[str, int]) -> Finding:
    if counts.get("mismatched"):
        return Finding.no_data(
            "importance-weight",
            f"no ratio: the lists of all {counts['mismatched']} scored turns are of unequal length",
            missing=("turns.sampled_logprobs", "turns.trainer_logprobs"),
        )
    missing = [] if counts.get("sampled") else ["turns.sampled_logprobs"]
    if not counts.get("scored"):
        missing.append("turns.trainer_logprobs")
    return Finding.no_data(
        "importance-weight", "no turn has both the engine's and the trainer's log-probabilities", missing=missing
    )


def _of_steps(steps: pl.DataFrame, logged: dict[str, float], limits: WeightLimits) -> Finding:
    status, faults = logged_faults(steps, limits)
    return Finding(
        check="importance-weight",
        status=status,
        value=logged.get("mean_abs_dlogp"),
        unit="nats",
        threshold=Threshold(warn=limits.mean_abs[0], fail=limits.mean_abs[1]),
        summary=f"as the trainer logged it: {len(faults)} of {steps.height} steps beyond a limit",
        check_next=("staleness", "the log-probabilities of tokens, which this log does not hold") if faults else (),
        evidence=tuple(faults),
        metrics=dict(logged),
    )


def _only_bad(weights: pl.DataFrame, counts: dict[str, int], limits: WeightLimits) -> Finding:
    evidence, omitted = kept(_bad(weights))
    return Finding(
        check="importance-weight",
        status="fail",
        threshold=Threshold(warn=limits.mean_abs[0], fail=limits.mean_abs[1]),
        unit="nats",
        summary=f"no ratio: the log-probabilities of all {counts['not_finite']} tokens are no finite numbers",
        check_next=(_NEXT["not_finite"],),
        evidence=evidence,
        evidence_omitted=omitted,
    )


def _of_tokens(weights: pl.DataFrame, versions: pl.DataFrame, counts: dict[str, int], limits: WeightLimits) -> Finding:
    cells = with_lag(part(weights, "cells"), versions)
    whole = weight_numbers(_totals(cells).row(0, named=True))
    overall, beyond = graded(whole, limits)
    lags = _by_lag(cells, limits)
    judged = lags.filter(pl.col("n") >= LEAST_TOKENS)
    at_fault = judged.filter(pl.col("status") != "ok")
    if at_fault.is_empty() and overall != "ok":
        at_fault = lags
    turns = _turns(weights, versions, cells, at_fault, limits)
    bad = _bad(weights)
    status = worst([overall, *judged["status"].to_list(), *(["warn"] if turns else []), *(["fail"] if bad else [])])
    evidence, omitted = kept([*bad, *turns])
    kinds = list(dict.fromkeys(each.kind for each in evidence if each.kind))
    return Finding(
        check="importance-weight",
        status=status,
        value=whole.mean_abs_dlogp,
        unit="nats",
        threshold=Threshold(warn=limits.mean_abs[0], fail=limits.mean_abs[1]),
        summary=_summary(cells, whole, beyond, at_fault, len(turns), counts),
        check_next=tuple(_NEXT[kind] for kind in kinds) if status != "ok" else (),
        evidence=evidence,
        evidence_omitted=omitted + _left_out(weights, counts, at_fault),
        breakdown=tuple(lags.drop("beyond").rename({"n": "tokens"}).to_dicts()),
        metrics=whole.metrics(),
        series=(*_positions(weights), *_histograms(weights, versions)),
    )


def _totals(cells: pl.DataFrame, by: tuple[str, ...] = ()) -> pl.DataFrame:
    least, most = pl.col("min_d").min(), pl.col("max_d").max()
    added = [pl.col(name).sum() for name in cells.columns if name not in (*CELL, "lag", "min_d", "max_d")]
    return cells.group_by(by, maintain_order=True).agg(*added, least, most) if by else cells.select(*added, least, most)


def _by_lag(cells: pl.DataFrame, limits: WeightLimits) -> pl.DataFrame:
    """Numbers, interval and status of each adapter and lag."""
    rows: list[dict[str, Any]] = []
    for sums in _totals(cells, ("adapter", "lag")).sort("adapter", "lag", nulls_last=True).iter_rows(named=True):
        numbers = weight_numbers(sums)
        status, beyond = graded(numbers, limits)
        low, high = interval(sums)
        rows.append(
            {"adapter": sums["adapter"], "lag": sums["lag"], "n": sums["n"], "turns": sums["turns"]}
            | numbers._asdict()
            | {"mean_abs_dlogp_low": low, "mean_abs_dlogp_high": high, "status": status, "beyond": ", ".join(beyond)}
        )
    schema = {"adapter": pl.String, "lag": pl.Int64, "n": pl.Int64, "turns": pl.Int64}
    numeric = dict.fromkeys((*WeightNumbers._fields, "mean_abs_dlogp_low", "mean_abs_dlogp_high"), pl.Float64)
    return pl.DataFrame(rows, schema=schema | numeric | {"status": pl.String, "beyond": pl.String})


def _turns(
    weights: pl.DataFrame, versions: pl.DataFrame, cells: pl.DataFrame, at_fault: pl.DataFrame, limits: WeightLimits
) -> list[Evidence]:
    """The worst token of each turn at fault: in a lag at fault, or beyond a failure limit by itself."""
    turns = with_lag(part(weights, "turns"), versions)
    causes = with_lag(part(weights, "causes"), versions) if "causes" in weights.columns else None
    kinds = with_kinds(cells, causes if causes is not None else _no_causes(cells))
    lags = at_fault.select("adapter", "lag", in_lag=pl.lit(True), lag_status=pl.col("status"))
    mean, share = pl.col("sum_abs") / pl.col("n"), pl.col("confident") / pl.col("n")
    beyond = (mean > limits.mean_abs[1]) | ((share > limits.confident[1]) & (pl.col("confident") >= 2))
    far = (pl.col("log_w").abs() > np.log(2.0)) | (mean > limits.mean_abs[0])
    found = (
        turns.with_columns(of_base=pl.col("sampling_version") == 0, by_itself=beyond & (pl.col("n") >= LEAST_TOKENS))
        .join(lags, on=["adapter", "lag"], how="left", nulls_equal=True, maintain_order="left")
        .join(kinds, on=GROUP, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(first=pl.int_range(pl.len()).over("adapter", "lag") == 0)
        .filter(pl.col("by_itself") | (pl.col("in_lag") & (far | pl.col("first"))))
        .unique(["session_id", "turn"], keep="first", maintain_order=True)
    )
    return [_evidence(row) for row in found.iter_rows(named=True)]


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


def _bad(weights: pl.DataFrame) -> list[Evidence]:
    if "bad" not in weights.columns:
        return []
    return [
        Evidence(
            session_id=row["session_id"],
            turn=row["turn"],
            token_index=row["token_index"],
            kind="not_finite",
            status="fail",
            text=f"{row['tokens']} tokens without a finite ratio; here mu {row['mu']:g}, pi_old {row['old']:g} (log)",
            detail={"tokens": row["tokens"]},
        )
        for row in part(weights, "bad").iter_rows(named=True)
    ]


def _left_out(weights: pl.DataFrame, counts: dict[str, int], at_fault: pl.DataFrame) -> int:
    """Candidates that the measure did not keep, where some lag is at fault: at most so many faults are not listed."""
    return counts["candidates"] - part(weights, "turns").height if at_fault.height else 0


def _summary(
    cells: pl.DataFrame,
    whole: WeightNumbers,
    beyond: tuple[str, ...],
    at_fault: pl.DataFrame,
    turns: int,
    counts: dict[str, int],
) -> str:
    n = int(cells["n"].sum())
    said = [f"mean |log w| {whole.mean_abs_dlogp:.3g}, w {whole.min_w:.3g} to {whole.max_w:.3g} over {n} tokens"]
    for row in at_fault.sort("mean_abs_dlogp", descending=True).head(3).iter_rows(named=True):
        where = "unknown lag" if row["lag"] is None else f"lag {row['lag']}"
        line = f"{row['adapter']}, " if row["adapter"] is not None else ""
        said.append(f"{line}{where} ({row['n']} tokens): {row['beyond'] or ', '.join(beyond)}")
    if at_fault.is_empty() and turns:
        said.append(f"{turns} turns are far off by themselves")
    if counts["not_finite"]:
        said.append(f"{counts['not_finite']} tokens without a finite ratio")
    if counts["mismatched"]:
        said.append(f"{counts['mismatched']} scored turns with lists of unequal length have no ratio")
    if counts["unsampled"]:
        said.append(f"{counts['unsampled']} scored turns have no sampled_logprobs")
    return "; ".join(said)


def _positions(weights: pl.DataFrame) -> list[Series]:
    rows = part(weights, "positions").sort("position")
    x = tuple(float(POSITIONS[index]) for index in rows["position"])
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


def _histograms(weights: pl.DataFrame, versions: pl.DataFrame) -> list[Series]:
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
