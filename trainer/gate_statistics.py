"""Whether one version is worse than another on the same tasks: paired by task, clustered by task, one bound.

Each task gives one difference of means over its samples; tasks, not samples, are independent. The bound is Student's.
Below the smallest difference that so many tasks can show, the answer is that there is none.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from checks.pass_rate import pass_at_k

Verdict = Literal["not_worse", "worse", "inconclusive"]
CONFIDENCE = 0.95
"""Of the one-sided bound."""
POWER = 0.8
"""Chance with which a difference of the minimum detectable effect would be seen."""
MARGIN = 0.02
"""What a candidate may be worse by: delta."""


class Comparison(NamedTuple):
    """A candidate against a version that is known to be good, over the tasks that both were tried on."""

    verdict: Verdict
    tasks: int
    mean_difference: float | None
    """Candidate less the other, mean over tasks."""
    lower_bound: float | None
    """One-sided 95 % bound of it; None with fewer than two tasks."""
    minimum_detectable: float | None
    """The smallest true difference that these tasks would show with a chance of 80 %."""


def compare(candidate: Mapping[str, float], other: Mapping[str, float], *, margin: float = MARGIN) -> Comparison:
    """Compares means by task. A task that only one was tried on enters nothing.

    `not_worse`: the bound is above -margin. Otherwise `worse`, if the tasks could have shown a difference of the
    margin or if they show a loss even so; else `inconclusive`.
    """
    shared = sorted(candidate.keys() & other.keys())
    differences = [candidate[task] - other[task] for task in shared]
    bad = [task for task, value in zip(shared, differences, strict=True) if not math.isfinite(value)]
    if bad:
        raise ValueError(f"task {bad[0]!r}: a score that is not finite, expected finite scores")
    count = len(differences)
    mean = math.fsum(differences) / count if count else None
    if mean is None or count < 2:
        return Comparison("inconclusive", count, mean, None, None)
    variance = math.fsum((value - mean) ** 2 for value in differences) / (count - 1)
    error = math.sqrt(variance / count)
    quantile, power = (float(stats.t.ppf(share, count - 1)) for share in (CONFIDENCE, POWER))
    lower, upper = mean - quantile * error, mean + quantile * error
    detectable = (quantile + power) * error
    if lower > -margin:
        verdict: Verdict = "not_worse"
    else:
        verdict = "worse" if detectable <= margin or upper < 0 else "inconclusive"
    return Comparison(verdict, count, mean, lower, detectable)


def mean_scores(scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Mean over the samples of each task; a task without samples is left out."""
    return {task: math.fsum(values) / len(values) for task, values in scores.items() if values}


def pass_rates(passed: Mapping[str, Sequence[bool]], k: int) -> dict[str, float]:
    """Unbiased pass@k of each task that has at least k samples."""
    rates = {task: pass_at_k(len(values), sum(values), k) for task, values in passed.items()}
    return {task: rate for task, rate in rates.items() if rate is not None}
