"""Importance weights that show the trainer and the engine do not agree on what was sampled."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from checks.finding import EVIDENCE_LIMIT, Evidence, Finding, Status, Threshold, worst
from checks.lag import with_lag
from checks.measures.importance_weights import CELL
from checks.measures.parts import part
from checks.weights.evidence import bad_evidence, not_finite, turn_evidence, turns_at_fault
from checks.weights.logged_steps import logged_faults, logged_metrics
from checks.weights.numbers import LEAST_TOKENS, WeightLimits, WeightNumbers, graded, interval, weight_numbers
from checks.weights.plots import by_position, histograms, max_w_by_step

_NEXT = {
    "mismatch_at_equal_version": "what the engine really serves (served-adapter), its dtype, the chat template",
    "stale": "staleness: how many steps lie between sampling and training",
    "unscaled_temperature": "the engine's log-probability mode, and the temperature the trainer scores at",
    "base_model_served": "whether the adapter is loaded and named in each request (served-adapter)",
    "zero_padded": "the code that fills in log-probabilities: a missing one is missing, not 0",
    "not_finite": "entropy and length-mismatch, then the source of the log-probabilities that are no finite number",
}


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
    evidence_limit: int = EVIDENCE_LIMIT,
) -> Finding:
    """Importance weights that show the trainer and the engine do not agree on what was sampled.

    Definition: w = exp(trainer_logprobs - sampled_logprobs) per completion token, in float64, from the numbers as
    logged, never clipped; tokens that a stated loss_mask leaves out do not count. max, min and mean of w;
    k1 = mean(log mu - log pi_old); k3 = mean(w - 1 - log w); ESS = (sum w)^2 / (n sum w^2); mean |log w|; the share of
    confident disagreement (mu >= 0.5 and log w < -2). All per adapter and lag, where the lag is the trainer's step
    less that of the version that sampled the token. The status is that of the worst number of the worst lag with
    16 tokens or more, or of all tokens together; single turns of 16 tokens or more that are beyond a failure limit
    while their lag is not make it a warning. A turn with lists of unequal length has no ratio: it is left out and
    counted. A log-probability that is no finite number (null too) fails as not_finite. One that is exactly 0 (mu = 1)
    at lag 0 where log w < -2 fails as zero_padded, however few there are: no rounding makes a doubtful token certain.
    Without tokens, the numbers that a trainer logged per step are graded instead.
    Kinds: mismatch_at_equal_version (lag 0, or the same version's own scores differ from mu), stale (a larger lag,
    and lag 0 is good or not there), unscaled_temperature (one side's logits were not divided by T: stated as raw, or
    the odds of likely tokens fit that; w keeps the logged numbers), base_model_served (mu is the base model's),
    zero_padded (a 0 was filled in).
    Units: value is mean |log w| in nats over all tokens; of a log without it the first of k1, k3, max w, ESS, mean w
    and min w that the trainer logged, and the unit says which. KL in nats; shares and ESS from 0 to 1.
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
        return _of_tokens(weights, versions, steps, counts, limits, evidence_limit)
    if counts.get("not_finite"):
        return _only_bad(weights, counts, limits, evidence_limit)
    logged = logged_metrics(steps)
    if logged:
        return _of_steps(weights, versions, steps, logged, limits)
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


def _of_steps(
    weights: pl.DataFrame, versions: pl.DataFrame, steps: pl.DataFrame, logged: dict[str, float], limits: WeightLimits
) -> Finding:
    status, faults = logged_faults(steps, limits)
    lead = next(each for each in _leads(limits) if each.metric in logged)
    return Finding(
        check="importance-weight",
        status=status,
        value=logged[lead.metric],
        unit=lead.unit,
        threshold=lead.threshold,
        summary=f"as the trainer logged it: {len(faults)} of {steps.height} steps beyond a limit{_largest(logged)}",
        check_next=("staleness", "the log-probabilities of tokens, which this log does not hold") if faults else (),
        evidence=tuple(faults),
        metrics=dict(logged),
        series=max_w_by_step(weights, versions, steps),
    )


class _Lead(NamedTuple):
    """What the value is of."""

    metric: str
    unit: str
    threshold: Threshold | None


def _leads(limits: WeightLimits) -> Iterator[_Lead]:
    """By which number a log without tokens is told, the first that the trainer logged."""
    yield _Lead("mean_abs_dlogp", "nats", Threshold(warn=limits.mean_abs[0], fail=limits.mean_abs[1]))
    for metric in ("kl_k1", "kl_k3"):
        yield _Lead(metric, f"nats of {metric[3:]}", Threshold(warn=limits.kl[0], fail=limits.kl[1]))
    yield _Lead("max_w", "largest w", Threshold(warn=limits.max_w))
    yield _Lead("ess", "ESS", Threshold(warn=limits.ess[0], fail=limits.ess[1]))
    yield _Lead("mean_w", "mean w", Threshold(fail=limits.mean_w))
    yield _Lead("min_w", "smallest w", None)


def _largest(logged: dict[str, float]) -> str:
    return f"; the largest w is {logged['max_w']:.3g}" if "max_w" in logged else ""


def _only_bad(weights: pl.DataFrame, counts: dict[str, int], limits: WeightLimits, evidence_limit: int) -> Finding:
    bad = not_finite(weights)
    evidence = bad_evidence(bad.head(evidence_limit))
    return Finding(
        check="importance-weight",
        status="fail",
        threshold=Threshold(warn=limits.mean_abs[0], fail=limits.mean_abs[1]),
        unit="nats",
        summary=f"no ratio: the log-probabilities of all {counts['not_finite']} tokens are no finite numbers",
        check_next=(_NEXT["not_finite"],),
        evidence=evidence,
        evidence_omitted=bad.height - len(evidence),
    )


def _of_tokens(
    weights: pl.DataFrame,
    versions: pl.DataFrame,
    steps: pl.DataFrame,
    counts: dict[str, int],
    limits: WeightLimits,
    evidence_limit: int,
) -> Finding:
    cells = with_lag(part(weights, "cells"), versions)
    whole = weight_numbers(_totals(cells).row(0, named=True))
    overall, beyond = graded(whole, limits)
    lags = _by_lag(cells, limits)
    judged = lags.filter(pl.col("n") >= LEAST_TOKENS)
    at_fault = judged.filter(pl.col("status") != "ok")
    if at_fault.is_empty() and overall != "ok":
        at_fault = lags
    turns = turns_at_fault(weights, versions, cells, at_fault, limits)
    bad = not_finite(weights)
    of_faults: list[Status] = [*(["warn"] if turns.height else []), *(["fail"] if bad.height else [])]
    status = worst([overall, *judged["status"].to_list(), *of_faults])
    evidence = _evidence(bad, turns, evidence_limit)
    return Finding(
        check="importance-weight",
        status=status,
        value=whole.mean_abs_dlogp,
        unit="nats",
        threshold=Threshold(warn=limits.mean_abs[0], fail=limits.mean_abs[1]),
        summary=_summary(cells, whole, beyond, at_fault, turns.height, counts),
        check_next=tuple(_NEXT[kind] for kind in _kinds(bad, turns)) if status != "ok" else (),
        evidence=evidence,
        evidence_omitted=bad.height + turns.height - len(evidence) + _left_out(weights, counts, at_fault),
        breakdown=tuple(lags.drop("beyond").rename({"n": "tokens"}).to_dicts()),
        metrics=whole.metrics(),
        series=(
            *by_position(weights),
            *histograms(weights, versions),
            *max_w_by_step(weights, versions, steps),
        ),
    )


def _evidence(bad: pl.DataFrame, turns: pl.DataFrame, limit: int) -> tuple[Evidence, ...]:
    """Of so many turns at most, those without a finite ratio first."""
    first = bad_evidence(bad.head(limit))
    return (*first, *turn_evidence(turns.head(limit - len(first))))


def _kinds(bad: pl.DataFrame, turns: pl.DataFrame) -> list[str]:
    """Of the faults that a report lists, in its order."""
    listed = turns.head(max(0, EVIDENCE_LIMIT - bad.height))["kind"].drop_nulls()
    return [*(["not_finite"] if bad.height else []), *listed.unique(maintain_order=True)]


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
        if sums["lag"] == 0 and sums["padded"]:
            status, beyond = "fail", (f"mu is exactly 1 at {sums['padded']} tokens that the trainer doubts", *beyond)
        low, high = interval(sums)
        rows.append(
            {"adapter": sums["adapter"], "lag": sums["lag"], "n": sums["n"], "turns": sums["turns"]}
            | numbers._asdict()
            | {"mean_abs_dlogp_low": low, "mean_abs_dlogp_high": high, "status": status, "beyond": ", ".join(beyond)}
        )
    schema = {"adapter": pl.String, "lag": pl.Int64, "n": pl.Int64, "turns": pl.Int64}
    numeric = dict.fromkeys((*WeightNumbers._fields, "mean_abs_dlogp_low", "mean_abs_dlogp_high"), pl.Float64)
    return pl.DataFrame(rows, schema=schema | numeric | {"status": pl.String, "beyond": pl.String})


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
