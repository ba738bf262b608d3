"""6-grams of token ids as numbers, and how many of some reappear in others."""

import numpy as np

from checks.ragged import Array

GRAM = 6
_FACTORS = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0xD6E8FEB86659FD93,
    0xA0761D6478BD642F,
    0xE7037ED1A0B428DB,
)
"""Odd and without pattern: two different grams have the same number once in 2^64."""


def grams(ids: Array) -> Array:
    """One uint64 for each six ids that follow one another."""
    count = len(ids) - GRAM + 1
    if count <= 0:
        return np.empty(0, np.uint64)
    numbers = np.zeros(count, np.uint64)
    wide = ids.astype(np.uint64)
    for place, factor in enumerate(_FACTORS):
        numbers += wide[place : place + count] * np.uint64(factor)
    numbers ^= numbers >> np.uint64(29)
    return numbers * np.uint64(0xBF58476D1CE4E5B9)


class GramSet:
    """Grams that can be asked for. A table of their first bits answers no for nearly all that are not there."""

    def __init__(self, numbers: Array) -> None:
        self._sorted = np.sort(numbers)
        bits = max(10, min(26, (16 * len(numbers)).bit_length()))
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, np.bool_)
        self._table[numbers >> self._shift] = True

    def holds(self, numbers: Array) -> Array:
        """For each number whether it is there."""
        found = self._table[numbers >> self._shift]
        maybe = numbers[found]
        if len(maybe):
            places = np.minimum(np.searchsorted(self._sorted, maybe), len(self._sorted) - 1)
            found[found] = self._sorted[places] == maybe
        return found


def contains(ids: Array, part: Array) -> bool:
    """Whether some ids stand in others one after the other."""
    if len(part) > len(ids):
        return False
    windows = np.lib.stride_tricks.sliding_window_view(ids, len(part))
    return bool((windows == part).all(axis=1).any())
