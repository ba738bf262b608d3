"""The eight lanes of one adapter, from its series, its findings and its ranking."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl

from checks.finding import Finding, Series
from checks.signals import ESTIMATE, SIGNALS, Part, Signal
from checks.suite import CHECKS
from console.watch.views.check_number import CheckNumber, check_number
from console.watch.views.first_mover import FirstMover, Mover
from console.watch.views.lane import Lane, LaneState, Onset, PartValue
from console.watch.views.place import fault_of, place_of_evidence
from console.watch.views.signal_findings import CHECK_OF, EVIDENCE, Thresholds
from console.watch.widgets.palette import State

BASELINE = 120
"""In-control samples that a baseline is of."""
BAND_MADS = 12
"""Half the height of the axis around the baseline, at least."""
LABELS = {
    "max_w": "max_w",
    "staleness": "staleness",
    "stall": "stall",
    "mfu": "mfu",
    "reward_eval_gap": "rew-eval",
    "pass_at_k": "pass@k",
    "entropy": "entropy",
    "grad_norm": "grad_norm",
}
"""Signal to its short name."""
_UNITS = {
    "max_w": "w",
    "staleness": "steps",
    "stall": "s",
    "mfu": "of peak",
    "reward_eval_gap": "reward",
    "pass_at_k": "share",
    "entropy": "nats",
    "grad_norm": "l2",
}
_OF_TIME = "of time"
"""Unit of a stall as its check judges it."""
_PARTS = {"min_w": "min", "kl_mu_old": "kl", "ess": "ess"}
_OF_TOKENS = ("max_w", "staleness", "entropy")


class _Limit(NamedTuple):
    """The argument of a check that is the threshold of a signal's lead value."""

    argument: str
    below: bool = False


_LIMITS = {
    "max_w": _Limit("max_w_warn_at"),
    "staleness": _Limit("warn_at"),
    "mfu": _Limit("warn_at", below=True),
    "entropy": _Limit("warn_at", below=True),
}
"""Signals whose lead value has a threshold in its own unit."""


class LaneSource(NamedTuple):
    """What lanes are made of."""

    series: pl.DataFrame
    """Of one adapter: signal, part, step, value."""
    findings: Mapping[str, Finding]
    thresholds: Thresholds
    first_mover: FirstMover
    alerts: Mapping[str, State]
    """Check to the state of its gravest alert, where it has one that is not ok."""
    tokens_read: bool
    suites: str = ""
    """Which held-out suite numbers are of, where there are several."""


def signal_lanes(source: LaneSource, since: int | None) -> tuple[Lane, ...]:
    """Every lane in the fixed order; curves from the step `since` on."""
    by_part = source.series.partition_by("signal", "part", as_dict=True, maintain_order=True)
    curves = {(str(key[0]), str(key[1])): frame for key, frame in by_part.items()}
    return tuple(_lane(signal, curves, source, since) for signal in SIGNALS)


def _lane(
    signal: Signal, curves: Mapping[tuple[str, str], pl.DataFrame], source: LaneSource, since: int | None
) -> Lane:
    check = CHECK_OF[signal.name]
    finding = source.findings[check]
    mover = next((each for each in source.first_mover.movers if each.signal == signal.name), None)
    part, curve = _lead(signal, curves)
    steps, values = curve["step"].to_numpy(), curve["value"].to_numpy()
    down = part.worse == "down" or signal.name == "entropy"
    limit = _LIMITS.get(signal.name)
    state = source.alerts.get(check) or _state(finding, mover)
    shown = steps >= since if since is not None else np.ones(len(steps), dtype=bool)
    newest = _newest(values)
    threshold = None if limit is None else _threshold(check, limit.argument, source.thresholds)
    verdict = check_number(signal.name, finding, threshold, source.suites)
    word, why = _word(state, newest, alerted=check in source.alerts), finding.summary
    if state == "ok" and signal.name in _OF_TOKENS and _beyond(newest, threshold, limit):
        state, word = "pending", "LOGGED"
        why = f"the trainer logged {newest:.4g}, limit {threshold:g}; over the tokens: {why}"
    lane = Lane(
        signal=signal.name,
        label=_label(signal, finding),
        unit=_UNITS[signal.name] + (" (estimate)" if part.name == ESTIMATE else ""),
        state=state,
        word=word,
        check=check,
        status=finding.status,
        newest=newest,
        newest_step=None if newest is None else int(steps[~np.isnan(values)][-1]),
        worst=_worst(signal, finding, values, down=down),
        worst_word="min" if down else "max",
        limit=threshold,
        below=limit is not None and limit.below,
        verdict=verdict,
        parts=_parts(signal, curves, finding, part),
        steps=tuple(steps[shown].tolist()),
        values=tuple(None if math.isnan(value) else value for value in values[shown].tolist()),
        band=_band(steps, values, mover),
        sampled_every=_every(steps),
        baseline=signal.name not in source.first_mover.unknown,
        onset=None if mover is None else _onset(mover),
        provisional=signal.name in _OF_TOKENS and not source.tokens_read and newest is not None,
        place=place_of_evidence(finding.evidence[0]) if finding.evidence else None,
        faults=tuple(fault_of(each) for each in finding.evidence[:EVIDENCE]),
        faults_total=len(finding.evidence) + finding.evidence_omitted,
        why=why,
    )
    by_check = signal.name == "stall" or newest is None
    return _led_by(lane, verdict) if by_check and verdict is not None else lane


def _led_by(lane: Lane, verdict: CheckNumber) -> Lane:
    """The lane with its check's number at the head: no step has one, or none in the unit of the limit."""
    curve = PartValue(name=f"{lane.unit} a step", newest=lane.newest, worst=lane.worst)
    own = {"stall": _OF_TIME, "max_w": verdict.unit, "entropy": verdict.unit}
    return msgspec.structs.replace(
        lane,
        unit=own.get(lane.signal, lane.unit),
        newest=verdict.value,
        newest_step=None,
        worst=None,
        limit=verdict.warn,
        below=verdict.below,
        parts=lane.parts if lane.newest is None else (curve,),
        curve_unit="" if lane.newest is None else lane.unit,
    )


def _word(state: LaneState, newest: float | None, *, alerted: bool) -> str | None:
    """For what the state's own word would not say: left its band without an alert; known, and not to be graded."""
    if state == "pending" and not alerted:
        return "MOVED"
    return "UNGRADED" if state == "no_data" and newest is not None else None


def _beyond(newest: float | None, threshold: float | None, limit: _Limit | None) -> bool:
    """Whether the newest value that is drawn crosses its limit: the check may judge by another source, the tokens."""
    if newest is None or threshold is None or limit is None:
        return False
    return newest < threshold if limit.below else newest > threshold


def _lead(signal: Signal, curves: Mapping[tuple[str, str], pl.DataFrame]) -> tuple[Part, pl.DataFrame]:
    """The part that the lane draws: the first, or where nothing is known of it an estimate of the same."""
    nothing = pl.DataFrame(schema={"step": pl.Int64, "value": pl.Float64})
    same = [part for part in signal.parts if part is signal.parts[0] or part.name == ESTIMATE]
    known = next((part for part in same if (signal.name, part.name) in curves), same[0])
    return known, curves.get((signal.name, known.name), nothing)


def _state(finding: Finding, mover: Mover | None) -> LaneState:
    by_status: dict[str, LaneState] = {"fail": "critical", "warn": "warning", "no_data": "no_data"}
    state = by_status.get(finding.status, "ok")
    return "pending" if state == "ok" and mover is not None else state


def _label(signal: Signal, finding: Finding) -> str:
    """pass@k with its k, where that is known."""
    if signal.name != "pass_at_k":
        return LABELS[signal.name]
    ks = [int(name.rpartition("_")[2]) for name in finding.metrics if name.rpartition("_")[2].isdecimal()]
    return f"pass@{max(ks)}" if max(ks, default=1) > 1 else LABELS[signal.name]


def _threshold(check: str, argument: str, thresholds: Thresholds) -> float | None:
    """What was configured, else the check's own."""
    own = thresholds.get(check, {}).get(argument)
    default = next(each for each in CHECKS if each.name == check).thresholds[argument]
    return own if own is not None else default if isinstance(default, int | float) else None


def _newest(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float | None:
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else None


def _worst(
    signal: Signal, finding: Finding, values: "np.ndarray[tuple[int], np.dtype[np.float64]]", *, down: bool
) -> float | None:
    """Of the check's own figure, where it gives one, and of the series: the two may be of different sources."""
    named = {"max_w": "max_w", "staleness": "staleness_max", "grad_norm": "grad_norm_max"}.get(signal.name)
    told = [float(finding.metrics[named])] if named is not None and named in finding.metrics else []
    known = values[~np.isnan(values)]
    every = [*told, *([float(known.min() if down else known.max())] if len(known) else [])]
    return None if not every else min(every) if down else max(every)


def _parts(
    signal: Signal, curves: Mapping[tuple[str, str], pl.DataFrame], finding: Finding, lead: Part
) -> tuple[PartValue, ...]:
    if signal.name == "reward_eval_gap":
        return _of_series(finding, (("train", "train reward"), ("eval", "held-out score")))
    if signal.name == "pass_at_k":
        return _passes(finding)
    found: list[PartValue] = []
    for part in signal.parts:
        if part is lead or part.name not in _PARTS:
            continue
        curve = curves.get((signal.name, part.name))
        values = [] if curve is None else curve["value"].drop_nulls().drop_nans().to_list()
        worst = min if part.worse == "down" else max
        found.append(
            PartValue(
                name=_PARTS[part.name], newest=values[-1] if values else None, worst=worst(values) if values else None
            )
        )
    return tuple(found)


def _of_series(finding: Finding, names: Sequence[tuple[str, str]]) -> tuple[PartValue, ...]:
    """The newest and the lowest value of curves that the check drew."""
    found: list[PartValue] = []
    for name, begins in names:
        values = _values(finding.series, begins)
        found.append(PartValue(name=name, newest=values[-1] if values else None, worst=min(values, default=None)))
    return tuple(found)


def _values(series: Sequence[Series], begins: str) -> list[float]:
    curve = next((each for each in series if each.name.startswith(begins)), None)
    return [] if curve is None else [value for value in curve.y if value is not None and not math.isnan(value)]


def _passes(finding: Finding) -> tuple[PartValue, ...]:
    """pass@1 and the widest pass@k, of the newest evaluation, with the lowest so far."""
    numbered = {name: name.rpartition("_")[2] for name in finding.metrics}
    ks = sorted(int(k) for k in numbered.values() if k.isdecimal())
    found: list[PartValue] = []
    for k in dict.fromkeys(ks[:1] + ks[-1:]):
        values = _values(finding.series, f"pass@{k}")
        newest = float(finding.metrics[f"pass_at_{k}"])
        found.append(PartValue(name=f"@{k}", newest=newest, worst=min(values, default=None)))
    return tuple(found)


def _band(
    steps: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    values: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    mover: Mover | None,
) -> tuple[float, float] | None:
    """Median less and plus 12 MAD of the samples before the onset; None without any."""
    control = values[steps < mover.first] if mover is not None else values
    control = control[np.isfinite(control)][-BASELINE:]
    if not len(control):
        return None
    middle = float(np.median(control))
    spread = float(np.median(np.abs(control - middle)))
    return middle - BAND_MADS * spread, middle + BAND_MADS * spread


def _every(steps: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> int | None:
    if len(steps) < 2:
        return None
    usual = int(np.median(np.diff(steps)))
    return usual if usual > 1 else None


def _onset(mover: Mover) -> Onset:
    return Onset(
        first=mover.first,
        last=mover.last,
        rank=mover.rank,
        tie=mover.tie,
        seen=mover.seen,
        part=mover.part,
        was=mover.was,
        at=None if mover.at is None else f"{mover.at:%Y-%m-%d %H:%M:%SZ}",
    )


Order = Literal["onset", "fixed"]


def ordered(lanes: Sequence[Lane], order: Order) -> tuple[Lane, ...]:
    """By onset where something moved, what did not move after it; else the fixed order."""
    if order == "fixed" or not any(lane.onset for lane in lanes):
        return tuple(lanes)
    places = {lane.signal: index for index, lane in enumerate(lanes)}

    def key(lane: Lane) -> tuple[float, float, int]:
        if lane.onset is None:
            return math.inf, math.inf, places[lane.signal]
        return lane.onset.rank, lane.onset.last, places[lane.signal]

    return tuple(sorted(lanes, key=key))
