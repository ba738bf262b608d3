"""Group-relative advantage, and when a group's rewards are all the same but for rounding."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]

RELATIVE = 5e-7
"""Differences below this share of the largest reward are float32 rounding of sums: four units in the last place."""
ABSOLUTE = 1e-7
"""Differences below this are what is left where float32 parts of order one cancel."""


def all_equal(rewards: Sequence[float]) -> bool:
    """Whether rewards differ by no more than float32 rounding."""
    spread = max(rewards) / 2 - min(rewards) / 2
    return spread <= max(ABSOLUTE, RELATIVE * max(abs(reward) for reward in rewards)) / 2


def group_advantages(rewards: Sequence[float]) -> list[float]:
    """(reward - mean) / population standard deviation of the group; exactly 0 where all rewards are equal.

    Finite for all finite rewards, however large or small.
    """
    if len(rewards) == 0 or all_equal(rewards):
        return [0.0] * len(rewards)
    values: Array = np.asarray(rewards, dtype=np.float64)
    values = values / np.abs(values).max()
    deviations = values - values.mean()
    return (deviations / np.sqrt((deviations**2).mean())).tolist()
