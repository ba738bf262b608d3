"""The cap on one user's share of a step's gradient."""

import math
from collections.abc import Mapping

_ROUNDING = 1e-12


def capped_scales(masses: Mapping[str, float], most: float) -> dict[str, float]:
    """User to what its advantages are multiplied by, so that no one's mass is more than the share `most` of all.

    Masses are sums of |advantage| x tokens. Users below the cap keep theirs; those above it come down to one level,
    counted against the capped total. Where there are too few users for it, all come down to the smallest mass.
    """
    positive = sorted(mass for mass in masses.values() if mass > 0)
    if not positive:
        return dict.fromkeys(masses, 1.0)
    level = _level(positive, most)
    return {user: min(1.0, level / mass) if mass > 0 else 1.0 for user, mass in masses.items()}


def _level(masses: list[float], most: float) -> float:
    """The largest mass that is allowed: with k users capped, level = most x (k x level + the rest)."""
    if masses[-1] <= most * math.fsum(masses):
        return masses[-1]
    for capped in range(1, len(masses)):
        uncapped = masses[: len(masses) - capped]
        room = 1 - most * capped
        if room <= most * _ROUNDING:
            break
        level = most * math.fsum(uncapped) / room
        if uncapped[-1] <= level * (1 + _ROUNDING):
            return level
    return masses[0]
