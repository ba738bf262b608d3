"""Whether one version is worse than another on the same tasks: paired by task, clustered by task, one bound.

Each task gives one difference of means over its samples; tasks, not samples, are independent. The bound is the wider
of two, each one-sided at 95 %:

- Student's, which is right where many tasks differ by comparable amounts;
- the exact binomial one on how many tasks lose at all (and on the worst of them alone), times the size of their loss,
  which is right where few do. Student's then sees no variance and claims a certainty that so few tasks cannot give:
  among 60 tasks of which 2 % are lost outright, none shows a loss in 30 of 100 tries. With no loss seen it is the rule
  of three: a share of 3/n may be lost unseen. What no bound sees is a rare loss far larger than any seen.

So equal scores are "not worse" only on enough tasks: 149 at a margin of 0.02. Below the smallest difference that so
many tasks can show, the answer is that there is none.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np
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
    spread: "Spread | None" = None
    """How the differences vary; None with fewer than two tasks."""


class Spread(NamedTuple):
    """How the differences of the tasks vary: what the width of a bound comes from."""

    sd: float
    """Standard deviation over tasks."""
    shares: tuple[float, ...]
    """Share of the tasks that are among the worst one, the worst two and so on of those that lose; 0 if none does."""
    sizes: tuple[float, ...]
    """Root mean square of the losses among them. Where none loses, what one might cost: the mean gain twice over, or a
    whole task where nothing differs."""

    def width(self, tasks: int) -> float:
        """How far below the mean the bound lies with so many tasks of this kind."""
        student = _quantile(CONFIDENCE, tasks) * self.sd / math.sqrt(tasks)
        unseen = _unseen_shares(np.asarray(self.shares), tasks) * np.asarray(self.sizes)
        return max(student, float(unseen.max(initial=0.0)))

    def detectable(self, tasks: int) -> float:
        """The true difference that so many tasks would show with a chance of `POWER`."""
        quantile = _quantile(CONFIDENCE, tasks)
        return self.width(tasks) * (quantile + _quantile(POWER, tasks)) / quantile


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
    spread = spread_of(differences)
    lower = mean - spread.width(count)
    upper = mean + spread_of([-value for value in differences]).width(count)
    detectable = spread.detectable(count)
    if lower > -margin:
        verdict: Verdict = "not_worse"
    else:
        verdict = "worse" if detectable <= margin or upper < 0 else "inconclusive"
    return Comparison(verdict, count, mean, lower, detectable, spread)


def spread_of(differences: Sequence[float]) -> Spread:
    """The spread of two or more differences."""
    count = len(differences)
    mean = math.fsum(differences) / count
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in differences) / (count - 1))
    losses = sorted(value for value in differences if value < 0)
    if losses:
        ranks = np.arange(1, len(losses) + 1)
        sizes = np.sqrt(np.cumsum(np.square(losses)) / ranks)
        return Spread(sd, tuple((ranks / count).tolist()), tuple(sizes.tolist()))
    gains = [value for value in differences if value > 0] or [1.0]
    # An unseen loss is as large as a gain, and takes the place of what such a task seemed to give.
    return Spread(sd, (0.0,), (mean + math.sqrt(math.fsum(value**2 for value in gains) / len(gains)),))


def tasks_needed(sd: float, margin: float) -> int:
    """Fewest tasks whose minimum detectable effect is the margin, by Student's bound alone."""
    needed = tasks_for(Spread(sd, (), ()), margin)
    assert needed is not None
    return needed


def tasks_for(spread: Spread, room: float) -> int | None:
    """Fewest tasks of this spread that show a difference of `room` with a chance of 80 %; None if there is no room.

    With `room` = margin + the mean difference it is the tasks with which such a candidate passes.
    """
    if room <= 0:
        return None
    enough = 2
    while spread.detectable(enough) > room:
        enough *= 2
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (middle, enough) if spread.detectable(middle) > room else (few, middle)
    return enough


def fallen(candidate: tuple[int, int], other: tuple[int, int]) -> float:
    """Chance of the candidate passing so seldom on one task if it were as good as the other: Fisher's exact test.

    Each is (passed, samples).
    """
    (passed, samples), (other_passed, other_samples) = candidate, other
    total, successes = samples + other_samples, passed + other_passed
    return float(cast(float, stats.hypergeom.cdf(passed, total, successes, samples)))


def mean_scores(scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Mean over the samples of each task; a task without samples is left out."""
    return {task: math.fsum(values) / len(values) for task, values in scores.items() if values}


def pass_rates(passed: Mapping[str, Sequence[bool]], k: int) -> dict[str, float]:
    """Unbiased pass@k of each task that has at least k samples."""
    rates = {task: pass_at_k(len(values), sum(values), k) for task, values in passed.items()}
    return {task: rate for task, rate in rates.items() if rate is not None}


# Any: NumPy's own parameter for a shape.
def _unseen_shares(shares: "np.ndarray[Any, np.dtype[np.float64]]", tasks: int) -> "np.ndarray[Any, Any]":
    """By how much each share may be larger than the share seen: Clopper and Pearson's bound."""
    lost = shares * tasks
    left = np.maximum(tasks - lost, 1e-9)
    bounds = np.asarray(stats.beta.ppf(CONFIDENCE, lost + 1, left), dtype=np.float64)
    return np.where(lost >= tasks, 0.0, bounds - shares)


def _quantile(share: float, tasks: int) -> float:
    return float(cast(float, stats.t.ppf(share, tasks - 1)))
