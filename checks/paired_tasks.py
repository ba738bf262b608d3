"""Two evaluations over the same held-out tasks, compared task by task."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

NORMAL_95 = 1.959964
"""Standard deviations of a normal within which 95 % lie."""

Task = TypeVar("Task")


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """The mean over the tasks that both have, before and after."""

    tasks: int
    before: float
    after: float
    by: float
    """After less before."""
    low: float | None = None
    """Student's 95 % bounds of `by`; None where every task differs by as much, which says nothing of its error."""
    high: float | None = None
    errors: float | None = None
    """|by| in standard errors, as many as it would be with many tasks: few make the error itself uncertain."""


def paired(before: Mapping[Task, float], after: Mapping[Task, float]) -> Paired | None:
    """Tasks are taken to be independent; one that only one evaluation has counts nowhere. None with fewer than two."""
    shared = [task for task in before if task in after]
    if len(shared) < 2:
        return None
    early, late = _mean([before[task] for task in shared]), _mean([after[task] for task in shared])
    differences = [after[task] - before[task] for task in shared]
    by, freedom = _mean(differences), len(shared) - 1
    spread = math.fsum((each - by) ** 2 for each in differences) / freedom
    error = math.sqrt(spread / len(shared))
    if error <= 1e-12:
        return Paired(tasks=len(shared), before=early, after=late, by=by)
    reach = student(NORMAL_95, freedom) * error
    return Paired(
        tasks=len(shared),
        before=early,
        after=late,
        by=by,
        low=by - reach,
        high=by + reach,
        errors=normal(abs(by) / error, freedom),
    )


def normal(t: float, freedom: int) -> float:
    """The standard deviations of a normal that are as rare as `t` of Student's distribution, by Wallace (1959): within
    1 % of SciPy's, which would take 28 MB and 0.3 s more to load."""
    return _scale(freedom) * math.sqrt(freedom * math.log1p(t * t / freedom))


def student(deviations: float, freedom: int) -> float:
    """The other way round: what of Student's distribution is as rare as so many deviations of a normal."""
    inner = deviations / _scale(freedom)
    return math.sqrt(freedom * math.expm1(inner * inner / freedom))


def _scale(freedom: int) -> float:
    return (8 * freedom + 1) / (8 * freedom + 3)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
