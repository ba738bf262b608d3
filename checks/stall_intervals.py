"""When trainer and engine stood still: from their spans, and by optimizer step."""

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from checks.intervals import Interval, union, without

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]

BUSY = {"trainer": "step", "engine": "generate"}
"""Role to the kind of span in which it works."""
STANDS = {"trainer": "wait", "engine": "paused_for_weights"}
"""Role to the kind of span in which it stands still, whatever else is said of that time."""

_ENGINES = ("sampler", "rollout", "generator", "inference")
"""What others call the engine."""


class Stalls(NamedTuple):
    """What the spans of a log say, in seconds since the window's start."""

    window: float
    """From the first start to the last end."""
    stalled: dict[str, list[Interval]]
    """Role to the time in which it stood still; only roles that have spans."""
    reversed_spans: int
    """Spans that end before they begin; they count nowhere."""


def stalls(spans: pl.DataFrame) -> Stalls | None:
    """The stall of each role in the window of all spans; None without a window.

    A role stands still while it neither works nor idles by schedule, and while it waits or is paused; where its work is
    not logged at all, only while it waits or is paused. Spans of one
    role are joined, so that several engines or adapters are never added up.
    """
    known = spans.drop_nulls(["from", "to"])
    forward = known.filter(pl.col("to") >= pl.col("from"))
    if forward.is_empty() or forward["to"].max() == forward["from"].min():
        return None
    origin = forward["from"].min()
    seconds = forward.select(
        pl.col("role").replace(dict.fromkeys(_ENGINES, "engine")),
        "kind",
        start=(pl.col("from") - origin).dt.total_microseconds() / 1e6,
        end=(pl.col("to") - origin).dt.total_microseconds() / 1e6,
    )
    by_kind: dict[tuple[str, str], list[Interval]] = {}
    for role, kind, start, end in seconds.iter_rows():
        by_kind.setdefault((role, kind), []).append((start, end))
    window = float(seconds.select(pl.col("end").max()).item())
    stalled: dict[str, list[Interval]] = {}
    for role in BUSY:
        if not any(name == role for name, _ in by_kind):
            continue
        stands = by_kind.get((role, STANDS[role]), [])
        if (role, BUSY[role]) not in by_kind:
            stalled[role] = union(stands)
            continue
        works = without(by_kind.get((role, BUSY[role]), []), stands)
        stalled[role] = without([(0.0, window)], [*works, *without(by_kind.get((role, "idle_scheduled"), []), stands)])
    return Stalls(window, stalled, known.height - forward.height)


def stall_by_step(steps: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, value`: seconds in which the trainer waited, as logged, else from spans between step ends."""
    logged = steps.select("adapter", "step", value=pl.col("wait_s")).drop_nulls("value")
    if logged.height:
        return logged.unique(["adapter", "step"], keep="last").sort("adapter", "step")
    ends = _step_ends(steps, spans)
    found = stalls(spans)
    if found is None or "trainer" not in found.stalled or ends.is_empty():
        return pl.DataFrame(schema={"adapter": pl.String, "step": pl.Int64, "value": pl.Float64})
    origin = spans["from"].min()
    timed = ends.select("adapter", "step", end=(pl.col("at") - origin).dt.total_microseconds() / 1e6)
    begun = timed.with_columns(begin=pl.col("end").shift(1).over("adapter").fill_null(0.0))
    stalled = found.stalled["trainer"]
    values = _stalled_before(stalled, begun["end"].to_numpy()) - _stalled_before(stalled, begun["begin"].to_numpy())
    return begun.select("adapter", "step", value=pl.Series(values, dtype=pl.Float64)).sort("adapter", "step")


def _step_ends(steps: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """`adapter, step, at` of each step: as logged, else the ends of the trainer's step spans if there are as many."""
    known = steps.select("adapter", "step", "at").unique(["adapter", "step"], keep="last").sort("adapter", "step")
    if known["at"].null_count() == known.height and known["adapter"].n_unique() == 1:
        ends = spans.filter(pl.col("role") == "trainer", pl.col("kind") == BUSY["trainer"])["to"].drop_nulls().sort()
        if len(ends) == known.height:
            return known.with_columns(at=ends)
    return known.drop_nulls("at").sort("adapter", "at")


def _stalled_before(stalled: list[Interval], at: Array) -> Array:
    """Stalled seconds before each time."""
    edges = np.array([edge for stretch in stalled for edge in stretch])
    lengths = np.array([end - start for start, end in stalled])
    reached = np.repeat(np.cumsum(lengths), 2)
    reached[::2] -= lengths
    return np.interp(at, edges, reached) if len(edges) else np.zeros(len(at))
