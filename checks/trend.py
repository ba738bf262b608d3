"""Slow trends in autocorrelated series: Theil-Sen's slope and Kendall's test on medians of stretches."""

import math
from typing import Any

import numpy as np

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]

STRETCHES = 20
"""Stretches whose medians are compared: long ones are nearly independent of each other."""
LEAST = 60
"""Samples below which nothing is called a trend: three for each stretch."""
SIGMAS = 3.09
"""One-sided chance of 0.001."""


def rise_over_run(values: Array) -> float | None:
    """How much a series rises from its first to its last stretch; None where chance could have done it."""
    if len(values) < LEAST:
        return None
    medians = np.array([np.median(stretch) for stretch in np.array_split(values, STRETCHES)])
    if kendall_sigmas(medians) <= SIGMAS:
        return None
    return theil_sen(medians) * (STRETCHES - 1)


def theil_sen(values: Array) -> float:
    """The median slope over all pairs of samples."""
    early, late = np.triu_indices(len(values), 1)
    return float(np.median((values[late] - values[early]) / (late - early)))


def kendall_sigmas(values: Array) -> float:
    """Kendall's S over its standard deviation without trend or ties; positive for a rise."""
    early, late = np.triu_indices(len(values), 1)
    score = float(np.sign(values[late] - values[early]).sum())
    n = len(values)
    return score / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
