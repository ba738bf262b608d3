"""Time in which the trainer or the engine stood still."""

from datetime import timedelta

import polars as pl

from checks.finding import Evidence, Finding, Number, Threshold, grade, worst
from checks.intervals import Interval, common, total, union
from checks.stall_intervals import Stalls, stalls

_NAMED = 20
"""Stretches of standing still that are evidence, the longest first."""
_NEXT = (
    "stall of the trainer: rollouts are too slow or too few engines",
    "stall of the engine: how long publishing takes",
    "staleness (what is traded for less waiting)",
)


def stall_time(spans: pl.DataFrame, steps: pl.DataFrame, *, warn_at: float = 0.25, fail_at: float = 0.9) -> Finding:
    """Time in which the trainer or the engine stood still.

    Definition: in the window from the first span's start to the last one's end, the trainer stands still while it has
    no step span, or has a wait span; the engine while it generates nothing or is paused for weights. Scheduled idle is
    not stall. Spans of one role are joined, so overlapping waits, engines and adapters are never added up; both and any
    are common and joined time of the two roles, known only where both have spans. Without spans: the waits that steps
    log, over their durations.
    Units: seconds, and shares of the window.
    Reads: spans(role, kind, from, to), steps(step, adapter, at, duration_s, wait_s, engine_wait_s).
    Threshold: the trainer's share, else the engine's; warn 0.25, fail 0.9, provisional: how much waiting is worth
    paying is the owner's to say, lecture 12 of CMU 11-768 calls any stall a sign that the trainer waits for rollouts.
    Check next: speed and number of rollouts; how long publishing takes; staleness.
    """
    found = stalls(spans)
    if found is not None and found.stalled:
        return _of_spans(spans, found, warn_at, fail_at)
    return _of_steps(steps, warn_at, fail_at)


def _of_spans(spans: pl.DataFrame, found: Stalls, warn_at: float, fail_at: float) -> Finding:
    seconds: dict[str, float] = {role: total(stalled) for role, stalled in found.stalled.items()}
    if len(found.stalled) == 2:
        seconds["both"] = total(common(found.stalled["trainer"], found.stalled["engine"]))
        seconds["any"] = total(union([*found.stalled["trainer"], *found.stalled["engine"]]))
    graded = "trainer" if "trainer" in seconds else "engine"
    share = seconds[graded] / found.window
    status = grade(share, warn_at=warn_at, fail_at=fail_at)
    evidence = _longest(spans, found.stalled[graded], graded) if status != "ok" else []
    if found.reversed_spans:
        status = worst([status, "warn"])
        said = f"{found.reversed_spans} spans end before they begin and were left out"
        evidence.append(Evidence(status="warn", value=float(found.reversed_spans), text=said))
    return Finding(
        check="stall-time",
        status=status,
        value=share,
        unit=f"share of time in which the {graded} stood still",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=f"in {found.window:.6g} s " + ", ".join(_said(*each, found.window) for each in seconds.items()),
        check_next=_NEXT if evidence else (),
        evidence=tuple(evidence),
        breakdown=tuple(
            {"role": role, "stalled_s": stalled, "share": stalled / found.window, "window_s": found.window}
            for role, stalled in seconds.items()
        ),
        metrics=_metrics(seconds, found.window),
    )


def _said(role: str, stalled: float, window: float) -> str:
    who = {"both": "both stood still", "any": "either stood still"}.get(role, f"the {role} stood still")
    return f"{who} {stalled:.6g} s ({stalled / window:.1%})"


def _longest(spans: pl.DataFrame, stalled: list[Interval], role: str) -> list[Evidence]:
    origin = spans["from"].min()
    longest = sorted(stalled, key=lambda stretch: stretch[0] - stretch[1])[:_NAMED]
    return [
        Evidence(
            value=end - start,
            text=f"the {role} stood still {end - start:.6g} s from {origin + timedelta(seconds=start)}",  # pyright: ignore[reportOperatorIssue, reportUnknownArgumentType]
            detail={"role": role, "from_s": start, "to_s": end},
        )
        for start, end in longest
    ]


def _metrics(seconds: dict[str, float], window: float) -> dict[str, Number]:
    metrics: dict[str, Number] = {f"stall_{role}_s": stalled for role, stalled in seconds.items()}
    if "trainer" in seconds:
        metrics["stall_trainer_share"] = seconds["trainer"] / window
    return metrics


def _of_steps(steps: pl.DataFrame, warn_at: float, fail_at: float) -> Finding:
    """From seconds that steps log; one step of several adapters logs the same seconds for each."""
    timed = steps.unique(["step", "at", "duration_s", "wait_s", "engine_wait_s"], maintain_order=True)
    sums = {
        role: timed.filter(pl.col(name).is_finite())[name].sum()
        for role, name in (("trainer", "wait_s"), ("engine", "engine_wait_s"))
        if timed[name].is_finite().any()
    }
    if not sums:
        return Finding.no_data(
            "stall-time", "no spans, and no step says how long it waited", missing=("spans.from", "steps.wait_s")
        )
    graded = "trainer" if "trainer" in sums else "engine"
    whole = timed.filter(
        pl.col(f"{'' if graded == 'trainer' else 'engine_'}wait_s").is_finite(), pl.col("duration_s") > 0
    )
    window = float(whole["duration_s"].sum())
    seconds = {role: float(value) for role, value in sums.items()}
    said = ", ".join(f"the {role} waited {value:.6g} s" for role, value in seconds.items())
    metrics: dict[str, Number] = {f"stall_{role}_s": value for role, value in seconds.items()}
    if window == 0:
        summary = f"{said}; no step says how long it took, so the share is not known"
        return Finding(
            check="stall-time", status="info", value=None, unit="share of time", summary=summary, metrics=metrics
        )
    share = float(whole["wait_s" if graded == "trainer" else "engine_wait_s"].sum()) / window
    if graded == "trainer":
        metrics["stall_trainer_share"] = share
    status = grade(share, warn_at=warn_at, fail_at=fail_at)
    return Finding(
        check="stall-time",
        status=status,
        value=share,
        unit=f"share of time in which the {graded} stood still",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=f"{said} in steps of {window:.6g} s ({share:.1%})",
        check_next=_NEXT if status != "ok" else (),
        evidence=_slowest(whole, graded) if status != "ok" else (),
        metrics=metrics,
    )


def _slowest(timed: pl.DataFrame, graded: str) -> tuple[Evidence, ...]:
    name = "wait_s" if graded == "trainer" else "engine_wait_s"
    worst_first = timed.filter(pl.col(name) > 0).sort(name, descending=True, maintain_order=True).head(_NAMED)
    return tuple(
        Evidence(step=step, adapter=adapter, value=waited, text=f"waited {waited:.6g} s of {duration:.6g} s")
        for step, adapter, waited, duration in worst_first.select("step", "adapter", name, "duration_s").iter_rows()
    )
