"""The numbers of importance weights from their sums, and how they are graded."""

from typing import Any, NamedTuple

import numpy as np

from checks.finding import Number, Status, grade, worst

Z95 = 1.959963984540054
"""Half width of a 95 % interval, in standard errors."""
LEAST_CLUSTERS = 5
"""From so many turns on, intervals take the tokens of a turn as dependent; below, as independent."""
LEAST_TOKENS = 16
"""A lag, or a turn, is judged alone from so many tokens on; every token counts in the whole."""


class WeightNumbers(NamedTuple):
    """Importance weights of some tokens, w = pi_old/mu; None where no number can be given."""

    max_w: float
    min_w: float
    mean_w: float
    kl_k1: float
    kl_k3: float
    ess: float | None
    mean_abs_dlogp: float
    confident_disagreement: float

    def metrics(self) -> dict[str, Number]:
        """By name, what there is."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class WeightLimits(NamedTuple):
    """Where each number becomes a warning and a failure."""

    mean_abs: tuple[float, float]
    kl: tuple[float, float]
    ess: tuple[float, float]
    confident: tuple[float, float]
    max_w: float
    mean_w: float


# Any: sums are ints and floats by name.
def weight_numbers(sums: dict[str, Any]) -> WeightNumbers:
    """The numbers of sums as `checks.measures.weight_sums` gives them."""
    n = sums["n"]
    with np.errstate(over="ignore"):
        max_w, min_w = float(np.exp(sums["max_d"])), float(np.exp(sums["min_d"]))
    whole = np.isfinite(sums["sum_w2"]) and sums["sum_w2"] > 0
    return WeightNumbers(
        max_w=max_w,
        min_w=min_w,
        mean_w=sums["sum_w"] / n,
        kl_k1=-sums["sum_d"] / n + 0.0,
        kl_k3=sums["sum_k3"] / n,
        # In this order: the square of a sum may be too large for a float where the quotient is 1.
        ess=sums["sum_w"] / sums["sum_w2"] * (sums["sum_w"] / n) if whole else None,
        mean_abs_dlogp=sums["sum_abs"] / n,
        confident_disagreement=sums["confident"] / n,
    )


def interval(sums: dict[str, Any]) -> tuple[float, float]:
    """95 % interval of mean |log w|, by the normal approximation."""
    n, turns, mean = sums["n"], sums["turns"], sums["sum_abs"] / sums["n"]
    if turns >= LEAST_CLUSTERS:
        spread = (sums["aa"] - 2 * mean * sums["an"] + mean**2 * sums["nn"]) / n**2 * turns / (turns - 1)
    elif n > 1:
        spread = (sums["sum_sq"] / n - mean**2) / (n - 1)
    else:
        return 0.0, float("inf")
    half = Z95 * max(spread, 0.0) ** 0.5
    return max(0.0, mean - half), mean + half


def graded(numbers: WeightNumbers, limits: WeightLimits) -> tuple[Status, tuple[str, ...]]:
    """The worst of all criteria, and what is beyond its limit, in words."""
    found: list[tuple[Status, str]] = []

    def judge(name: str, value: float, warn: float | None, fail: float | None, *, below: bool = False) -> None:
        status = grade(value, warn_at=warn, fail_at=fail, below=below)
        if status != "ok":
            found.append((status, f"{name} {value:.3g}"))

    judge("mean |log w|", numbers.mean_abs_dlogp, *limits.mean_abs)
    judge("|k1|", abs(numbers.kl_k1), *limits.kl)
    judge("k3", numbers.kl_k3, *limits.kl)
    if numbers.ess is not None:
        judge("ESS", numbers.ess, *limits.ess, below=True)
    judge("confident disagreement", numbers.confident_disagreement, *limits.confident)
    judge("max w", numbers.max_w, limits.max_w, None)
    judge("mean w", numbers.mean_w, None, limits.mean_w)
    judge("mean w", numbers.mean_w, None, 1 / limits.mean_w, below=True)
    found.sort(key=lambda each: each[0] != "fail")
    return worst([status for status, _ in found]), tuple(text for _, text in found)
