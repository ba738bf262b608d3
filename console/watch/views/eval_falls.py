"""Held-out scores that surely fell from one evaluation to the next, where there are too few for a baseline."""

import itertools
import math

import msgspec
import polars as pl

from checks.eval_points import stepped

LEAST_TASKS = 8
"""Tasks that both evaluations must have."""
SURE = 4.0
"""Standard errors of the paired differences by which the mean must fall; provisional."""


class Fall(msgspec.Struct, frozen=True, kw_only=True):
    """Two neighbouring evaluations of one adapter."""

    since: int
    """Step of the earlier one: the fall began after it."""
    step: int
    """Step of the later one."""
    by: float
    """Mean over the tasks of the earlier score less the later one."""
    errors: float | None
    """The same in standard errors; None where every task fell by as much."""
    tasks: int


def eval_falls(evals: pl.DataFrame, versions: pl.DataFrame, adapter: str | None) -> tuple[Fall, ...]:
    """Each fall of one adapter, oldest first. The base model's evaluation, version 0, is the adapter's first."""
    mine = stepped(evals, versions).filter(pl.col("adapter").eq_missing(adapter))
    scored = mine.drop_nulls(["step", "points"]).filter(pl.col("points").is_finite())
    means = scored.group_by("step", "suite_task").agg(pl.col("points").mean()).sort("step")
    points = means.partition_by("step", maintain_order=True)
    found = [_fall(early, late) for early, late in itertools.pairwise(points)]
    return tuple(fall for fall in found if fall is not None)


def _fall(early: pl.DataFrame, late: pl.DataFrame) -> Fall | None:
    pairs = early.join(late, on="suite_task", suffix="_late")
    if pairs.height < LEAST_TASKS:
        return None
    differences = (pairs["points"] - pairs["points_late"]).to_list()
    mean = math.fsum(differences) / len(differences)
    spread = math.fsum((each - mean) ** 2 for each in differences) / (len(differences) - 1)
    error = math.sqrt(spread / len(differences))
    if mean <= 0 or mean < SURE * error:
        return None
    return Fall(
        since=int(early["step"][0]),
        step=int(late["step"][0]),
        by=mean,
        errors=mean / error if error else None,
        tasks=pairs.height,
    )
