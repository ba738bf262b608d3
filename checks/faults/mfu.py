"""Model FLOPs that the trainer gets out of what its device could do."""

import polars as pl

from checks.finding import Evidence, Finding, Series, Threshold, grade, kept, worst
from checks.signals import mfu_of_step

_NEXT = ("padding and batch composition", "the microbatch (too small?)", "stall-time")
_NEXT_IMPOSSIBLE = (
    "peak_flops: of the right device and dtype?",
    "model_flops: counts recomputation or the batch twice?",
)


def mfu(steps: pl.DataFrame, *, warn_at: float = 0.15, fail_at: float | None = None) -> Finding:
    """Model FLOPs that the trainer gets out of what its device could do.

    Definition: model_flops / (duration_s * peak_flops) of each step, else the MFU the log gives; over the run weighted
    by time where every step says how long it took, else the plain mean. Above 1 is `impossible`: the count of FLOPs,
    the peak or the time is wrong, and such steps stay out of the mean, unless all are such.
    Units: share of peak, 0 to 1.
    Reads: steps(step, adapter, duration_s, model_flops, peak_flops, mfu).
    Threshold: warn below 0.15, the advisory of the Miles dashboard; impossible fails.
    Check next: padding; the microbatch; stall-time; for impossible the peak and the FLOP count.
    """
    known = steps.select("step", "adapter", "duration_s", value=mfu_of_step()).filter(pl.col("value").is_not_nan())
    known = known.drop_nulls("value")
    if known.is_empty():
        return Finding.no_data(
            "mfu", "no step gives an MFU, or FLOPs, peak and time", missing=("steps.mfu", "steps.model_flops")
        )
    wrong = known.filter((pl.col("value") > 1) | (pl.col("value") < 0))
    possible = known.filter((pl.col("value") <= 1) & (pl.col("value") >= 0))
    evidence, omitted = kept(
        [
            Evidence(
                step=step,
                adapter=adapter,
                kind="impossible",
                status="fail",
                value=value,
                text="an MFU outside of 0 to 1",
            )
            for step, adapter, value in wrong.select("step", "adapter", "value").iter_rows()
        ]
    )
    mean = _mean(possible if possible.height else wrong.filter(pl.col("value").is_finite()))
    level = "ok" if possible.is_empty() or mean is None else grade(mean, warn_at=warn_at, fail_at=fail_at, below=True)
    said = f"MFU {mean:.3g} over {possible.height} steps" if possible.height else "no step has a possible MFU"
    return Finding(
        check="mfu",
        status=worst([level, *(["fail"] if wrong.height else [])]),
        value=mean,
        unit="share of peak",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=said + (f"; {wrong.height} steps are outside of 0 to 1" if wrong.height else ""),
        check_next=(_NEXT_IMPOSSIBLE if wrong.height else ()) + (_NEXT if level != "ok" else ()),
        evidence=evidence,
        evidence_omitted=omitted,
        metrics={} if mean is None else {"mfu": mean},
        series=_series(known),
    )


def _mean(known: pl.DataFrame) -> float | None:
    if known.is_empty():
        return None
    duration = known["duration_s"]
    if duration.null_count() == 0 and bool((duration.is_finite() & (duration > 0)).all()):
        return float((known["value"] * duration).sum()) / float(duration.sum())
    return float(known["value"].sum()) / known.height


def _series(known: pl.DataFrame) -> tuple[Series, ...]:
    return tuple(
        Series(
            name="MFU" if key[0] is None else f"MFU of {key[0]}",
            x_label="step",
            y_label="share of peak",
            x=tuple(map(float, curve["step"])),
            y=tuple(curve["value"]),
        )
        for key, curve in known.sort("step").partition_by("adapter", as_dict=True, maintain_order=True).items()
    )
