"""Gradient norm before clipping: spikes, a slow rise, and norms that are not numbers."""

from typing import Any

import numpy as np
import polars as pl

from checks.finding import Evidence, Finding, Series, Status, Threshold, grade, kept, worst
from checks.trend import rise_over_run

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]

BEFORE = 50
"""Steps before a step that it is compared with."""
LEAST = 10
_NEXT = (
    "importance-weight: max w of the same step",
    "the rewards and advantages of that step's groups",
    "the learning rate",
)
_SAID = "not a finite norm"
_NEXT_NOT_FINITE = ("the loss and the log-probabilities of that step: which of them is not a number", "dtype overflow")
_NEXT_OVERFLOW = ("the precision: float16 with a loss scaler overflows now and then, and skips that step's update",)


def grad_norm(
    steps: pl.DataFrame,
    *,
    warn_at: float = 4.0,
    fail_at: float = 100.0,
    spike_sigmas: float = 6.0,
    drift_warn_at: float = 2.0,
) -> Finding:
    """Gradient norm before clipping: spikes, a slow rise, and norms that are not numbers.

    Definition: a spike is a norm more than `warn_at` times the median of the 50 steps before it and more than
    `spike_sigmas` of their 1.4826 MAD above it, both in logarithms; at least 10 steps must come before. Steps with a
    norm of 0, whose groups all had equal rewards, taught nothing and are neither. Without any step that has enough
    before it nothing is graded: no data, unless a norm is not finite. A drift is a
    rise of the norm over the run by `drift_warn_at` or more, by Theil-Sen on the logarithms of 20 medians of stretches,
    that Kendall's test calls no chance at 0.001. not_finite: NaN or infinity; infinity from a finite loss, with finite
    norms after it, is what dynamic loss scaling skips a step for.
    Units: multiples of the median before; the norms themselves are L2, before clipping.
    Reads: steps(step, adapter, grad_norm, loss).
    Threshold: warn 4, fail 100, provisional (more than 3 sigmas is what rlwatch alarms at; heavy tails pass that in
    healthy runs); a drift warns from a doubling, provisional; not_finite fails, a skipped step warns (verl, fp16: one
    of 8 steps in a healthy run).
    Check next: importance-weight of the same step; that step's rewards; the learning rate.
    """
    norm = pl.col("grad_norm").cast(pl.Float64)
    known = steps.select("step", "adapter", "loss", norm=norm).drop_nulls("norm")
    if known.is_empty():
        return Finding.no_data("grad-norm", "no step gives its gradient norm", missing=("steps.grad_norm",))
    evidence = _not_finite(known)
    finite = known.filter(pl.col("norm").is_finite()).unique(["adapter", "step"], keep="last", maintain_order=True)
    curves = finite.sort("step").partition_by("adapter", as_dict=True, maintain_order=True)
    ratios: list[float] = []
    moved: list[Evidence] = []
    for key, curve in curves.items():
        ratio, spikes = _spikes(key[0], curve, warn_at, fail_at, spike_sigmas)
        ratios += [] if ratio is None else [ratio]
        moved.extend([*spikes, *_drift(key[0], curve, drift_warn_at)])
    moved.sort(key=lambda each: -(each.value or 0.0))
    status = worst([each.status or "ok" for each in [*evidence, *moved]])
    held, omitted = kept([*evidence, *moved])
    spiked = sum(each.status is not None and "times the median" in (each.text or "") for each in moved)
    said = f"{spiked} spikes, {len(moved) - spiked} drifts, {len(evidence)} norms not finite"
    if not ratios:
        above = finite.filter(pl.col("norm") > 0).height
        said = f"{above} of them with a finite norm above 0; a spike is told by {LEAST} such steps before it"
        said += f"; {len(evidence)} norms not finite" if evidence else ""
    return Finding(
        check="grad-norm",
        status=status if ratios or evidence else "no_data",
        value=max(ratios, default=None),
        unit="times the median before",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=f"{known.height} steps, {said}",
        check_next=_next({each.status for each in evidence}) + (_NEXT if moved else ()),
        evidence=held,
        evidence_omitted=omitted,
        metrics={"grad_norm_max": float(finite["norm"].max())} if finite.height else {},  # pyright: ignore[reportArgumentType]
        series=tuple(_series(key[0], curve) for key, curve in curves.items()),
    )


def _next(statuses: set[Status | None]) -> tuple[str, ...]:
    return (_NEXT_NOT_FINITE if "fail" in statuses else ()) + (_NEXT_OVERFLOW if "warn" in statuses else ())


def _not_finite(known: pl.DataFrame) -> list[Evidence]:
    """Steps whose norm is no finite number, those first that no loss scaler explains."""
    finite = pl.col("norm").is_finite()
    last = pl.when(finite).then(pl.col("step")).max().over("adapter")
    skipped = pl.col("norm").is_infinite() & pl.col("loss").is_finite() & (pl.col("step") < last)
    bad = known.with_columns(skipped=skipped.fill_null(False)).filter(~finite).sort("skipped", maintain_order=True)
    found: list[Evidence] = []
    for step, adapter, norm, skips in bad.select("step", "adapter", "norm", "skipped").iter_rows():
        status: Status = "warn" if skips else "fail"
        said = "an infinite norm from a finite loss: overflow, a step that loss scaling skips" if skips else _SAID
        found.append(Evidence(step=step, adapter=adapter, kind="not_finite", status=status, value=norm, text=said))
    return found


def _spikes(
    adapter: str | None, curve: pl.DataFrame, warn_at: float, fail_at: float, sigmas: float
) -> tuple[float | None, list[Evidence]]:
    """The largest multiple of the median before, None where no step has enough before it; and the spikes."""
    positive = curve.filter(pl.col("norm") > 0)
    logs = positive["norm"].log()
    centre = logs.rolling_median(BEFORE, min_samples=LEAST).shift(1)
    spread = 1.4826 * (logs - centre).abs().rolling_median(BEFORE, min_samples=LEAST).shift(1)
    found: list[Evidence] = []
    largest: float | None = None
    rows = zip(positive["step"], positive["norm"], logs - centre, spread, strict=True)
    for step, norm, above, width in rows:
        if above is None:
            continue
        ratio = _times(above)
        largest = max(largest or 0.0, ratio)
        status: Status = grade(ratio, warn_at=warn_at, fail_at=fail_at)
        if status == "ok" or (width is not None and above <= sigmas * width):
            continue
        said = f"gradient norm {norm:.4g} is {ratio:.3g} times the median of the steps before"
        found.append(Evidence(step=step, adapter=adapter, status=status, value=ratio, text=said, detail={"norm": norm}))
    return largest, found


def _drift(adapter: str | None, curve: pl.DataFrame, warn_at: float) -> list[Evidence]:
    positive = curve.filter(pl.col("norm") > 0)
    rise = rise_over_run(np.log(positive["norm"].to_numpy()))
    if rise is None or _times(rise) < warn_at:
        return []
    times = _times(rise)
    said = f"gradient norm rose slowly, by a factor of {times:.3g} over {positive.height} steps"
    return [Evidence(step=int(positive["step"][-1]), adapter=adapter, status="warn", value=times, text=said)]


def _times(log_ratio: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(log_ratio))


def _series(adapter: str | None, curve: pl.DataFrame) -> Series:
    return Series(
        name="gradient norm" if adapter is None else f"gradient norm of {adapter}",
        x_label="step",
        y_label="L2 before clipping",
        x=tuple(map(float, curve["step"])),
        y=tuple(curve["norm"]),
    )
