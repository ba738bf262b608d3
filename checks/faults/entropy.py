"""Entropy that collapses or surges, and log-probabilities that no probability can have."""

from typing import NamedTuple

import polars as pl

from checks.finding import Evidence, Finding, Status, Threshold, grade, kept, worst
from checks.measures.entropies import ABOVE_ZERO
from checks.measures.parts import part
from checks.signals import ESTIMATE, entropy_points, named
from checks.step_curves import step_curves
from checks.token_signals import SCHEMA as TOKENS
from checks.token_signals import entropy_by_step

LEAST_STEPS = 10
"""A change over the run is told from so many steps on."""
_NEXT = (
    "pass-at-k: is the diversity of answers falling too",
    "the learning rate and the entropy or KL term",
    "grad-norm",
)
_NEXT_NOT_FINITE = ("grad-norm", "the loss and the logits of that step: which of them is not a number")
_NEXT_ABOVE = ("the source of these log-probabilities: unnormalised, shifted, or a placeholder without a loss mask",)


class _Curve(NamedTuple):
    """Mean entropy by step of one adapter, or its estimate."""

    name: str
    adapter: str | None
    points: pl.DataFrame
    """`adapter, step, value`, by step."""


def entropy(
    entropies: pl.DataFrame,
    steps: pl.DataFrame,
    versions: pl.DataFrame,
    *,
    warn_at: float = 0.01,
    fail_at: float = 0.001,
    collapse_warn_at: float = 0.25,
    collapse_fail_at: float = 0.1,
    surge_warn_at: float = 2.5,
    surge_fail_at: float = 5.0,
) -> Finding:
    """Entropy that collapses or surges, and log-probabilities that no probability can have.

    Definition: entropy_mean is the mean of the full distribution's entropy over completion tokens, where the trainer
    logged that (of tokens, else of steps). From sampled tokens alone only entropy_sampled_estimate is known,
    -mean(log mu), without turns sampled at temperature 0. Tokens that a stated loss_mask leaves out do not count. A
    curve by step is of one of these, the first that knows at least half as many steps as the one that knows most. From
    10 steps on, the median of the last fifth of the steps is compared with that of the first fifth (5 steps at least);
    where that is still quiet, the median of the last 5 steps with the limits for failing, as a warning. It is told
    at the first step after the first fifth that is itself beyond the limit, with that step's entropy as value.
    not_finite: an entropy that the trainer logged for a step is NaN or infinite; it counts in no mean and no median.
    logprob_above_zero: any logged log-probability (engine's, trainer's, reference's) above 1e-6, which no probability
    has; float32 rounding stays below.
    Units: nats.
    Reads: turns(sampled_logprobs, completion_ids, loss_mask, temperature, trainer_step, trainer_version),
    scores(entropies, trainer_logprobs, sampling_version_logprobs, reference_logprobs, trainer_step, trainer_version),
    steps(entropy).
    Threshold: mean below 0.01 warns and below 0.001 fails; last over first fifth below 1/4 or above 2.5 warns, below
    1/10 or above 5 fails: provisional, since the level depends on the task (arithmetic answers of three tokens have
    0.014 in a healthy run). A log-probability above zero, or an entropy that is not finite, always fails.
    Check next: pass-at-k; the learning rate and the entropy or KL term; grad-norm.
    """
    sums = part(entropies, "steps") if "steps" in entropies.columns else pl.DataFrame()
    metrics = _metrics(sums, steps)
    above, above_omitted = _above(entropies)
    bad = _not_finite(steps)
    if not metrics and not above and not bad:
        return _nothing(entropies)
    value = metrics.get("entropy_mean", metrics.get("entropy_sampled_estimate"))
    curves = _curves(sums, steps, versions)
    limits = (collapse_warn_at, collapse_fail_at, surge_warn_at, surge_fail_at)
    moved = [found for curve in curves if (found := _moved(curve, *limits)) is not None]
    level: Status = "ok" if value is None else grade(value, warn_at=warn_at, fail_at=fail_at, below=True)
    evidence, omitted = kept([*above, *moved, *bad])
    status = worst([level, *(each.status or "ok" for each in moved), *(["fail"] if above or bad else [])])
    return Finding(
        check="entropy",
        status=status,
        value=value,
        unit="nats",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=_summary(metrics, _over(sums, steps), moved, len(above) + above_omitted, len(bad)),
        check_next=(_NEXT_ABOVE if above else ())
        + (_NEXT_NOT_FINITE if bad else ())
        + (_NEXT if level != "ok" or moved else ()),
        evidence=evidence,
        evidence_omitted=omitted + above_omitted,
        metrics=metrics,
        series=tuple(drawn for curve in curves for drawn in step_curves(curve.points, _said(curve.name), "nats")),
    )


def _nothing(entropies: pl.DataFrame) -> Finding:
    unfit = int(part(entropies, "counts")["unfit"][0]) if entropies.height else 0
    said = f"all {unfit} lists are of another length than their completion" if unfit else "none is logged"
    return Finding.no_data(
        "entropy",
        f"no entropies and no log-probabilities to judge: {said}",
        missing=("turns.entropies", "turns.sampled_logprobs"),
    )


def _metrics(sums: pl.DataFrame, steps: pl.DataFrame) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if sums.height and (tokens := float(sums["entropy_tokens"].sum())):
        metrics["entropy_mean"] = float(sums["entropy_sum"].sum()) / tokens
    elif len(logged := steps["entropy"].filter(steps["entropy"].is_finite())):
        metrics["entropy_mean"] = float(logged.mean())  # pyright: ignore[reportArgumentType]
    if sums.height and (tokens := float(sums["sampled_tokens"].sum())):
        metrics["entropy_sampled_estimate"] = -float(sums["sampled_sum"].sum()) / tokens + 0.0
    return metrics


def _not_finite(steps: pl.DataFrame) -> list[Evidence]:
    bad = steps.filter(~pl.col("entropy").is_finite()).sort("step", maintain_order=True)
    said = "the entropy that was logged is no finite number"
    return [
        Evidence(step=step, adapter=adapter, kind="not_finite", status="fail", value=value, text=said)
        for step, adapter, value in bad.select("step", "adapter", "entropy").iter_rows()
    ]


def _curves(sums: pl.DataFrame, steps: pl.DataFrame, versions: pl.DataFrame) -> list[_Curve]:
    """Per adapter: entropies of tokens, what the trainer logged per step, or the estimate, each whole."""
    measured = entropy_by_step(sums, versions) if sums.height else pl.DataFrame(schema=TOKENS)
    tokens, logged = named((measured, steps))
    return [
        _Curve(name, frame["adapter"][0], frame)
        for name, points in entropy_points(tokens, logged).items()
        for frame in points.partition_by("adapter", maintain_order=True)
    ]


def _moved(
    curve: _Curve, collapse_warn: float, collapse_fail: float, surge_warn: float, surge_fail: float
) -> Evidence | None:
    """A collapse or a surge from the first fifth of the steps to the last, at the first step beyond the warning."""
    points = curve.points.filter(pl.col("value").is_finite())
    count = points.height
    if count < LEAST_STEPS:
        return None
    fifth = late = max(5, count // 5)
    series = points["value"]
    before, after = series[:fifth].median(), series[-fifth:].median()
    assert isinstance(before, float)
    assert isinstance(after, float)
    if before <= 0:
        return None
    ratio = after / before
    falls = ratio < collapse_warn
    low = grade(ratio, warn_at=collapse_warn, fail_at=collapse_fail, below=True)
    status = low if falls else grade(ratio, warn_at=surge_warn, fail_at=surge_fail)
    if status == "ok":
        # What has only just begun does not move the median of a fifth.
        late = LEAST_STEPS // 2
        after = series[-late:].median()
        assert isinstance(after, float)
        ratio = after / before
        falls = ratio < collapse_fail
        if not falls and ratio <= surge_fail:
            return None
        status = "warn"
    # Ratios, as above: a product is rounded otherwise, and no step might be beyond it.
    limit = max(collapse_warn, collapse_fail) if falls else min(surge_warn, surge_fail)
    step, value = next(
        (step, value)
        for step, value in points[fifth:].select("step", "value").iter_rows()
        if (value / before < limit if falls else value / before > limit)
    )
    steps, way = points["step"], "collapsed" if falls else "surged"
    return Evidence(
        step=step,
        adapter=curve.adapter,
        status=status,
        value=value,
        text=f"{_said(curve.name)} {way} from {before:.3g} nats in the median of steps {steps[0]} to {steps[fifth - 1]}"
        f" to {after:.3g} in that of {steps[-late]} to {steps[-1]}; step {step}, {value:.3g}, is the first"
        f" {'below' if falls else 'beyond'} {limit:g} times",
        detail={"first_median": before, "last_median": after, "ratio": ratio},
    )


def _above(entropies: pl.DataFrame) -> tuple[list[Evidence], int]:
    if "above" not in entropies.columns:
        return [], 0
    rows = part(entropies, "above")
    found = [
        Evidence(
            session_id=row["session_id"],
            turn=row["turn"],
            token_index=row["token_index"],
            kind="logprob_above_zero",
            status="fail",
            value=row["value"],
            text=f"{row['column']} {row['value']:.4g} is above 0, a probability above 1; {row['tokens']} in this turn",
            detail={"column": row["column"], "tokens": row["tokens"]},
        )
        for row in rows.sort("value", descending=True, maintain_order=True).iter_rows(named=True)
    ]
    return found, int(part(entropies, "counts")["above"][0]) - len(found)


def _said(name: str) -> str:
    return "entropy estimate" if name == ESTIMATE else name


def _over(sums: pl.DataFrame, steps: pl.DataFrame) -> str:
    """What the mean is of: tokens, each as it was first scored, else steps."""
    tokens = int(sums["entropy_tokens"].sum()) if sums.height else 0
    return f"{tokens} tokens" if tokens else f"{int(steps['entropy'].is_finite().sum())} steps"


def _summary(metrics: dict[str, float], over: str, moved: list[Evidence], above: int, bad: int) -> str:
    names = {
        "entropy_mean": f"mean entropy {{:.4g}} nats over {over}",
        "entropy_sampled_estimate": "estimate from sampled tokens {:.4g} nats",
    }
    said = [names[name].format(value) for name, value in metrics.items()]
    said += [each.text or "" for each in moved]
    if bad:
        said.append(f"{bad} steps whose entropy is not finite")
    if above:
        said.append(f"{above} lists with a log-probability above {ABOVE_ZERO:g}")
    return "; ".join(said)
