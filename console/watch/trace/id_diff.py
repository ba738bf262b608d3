"""Two lists of ids aligned run by run: the longest that both have, then the longest on either side of it, and so on."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from checks.ragged import Array

Kind = Literal["same", "removed", "added"]
LEAST = 4
"""Ids that a run needs to be an alignment: fewer are in both by chance,"""
LEAST_AT_END = 2
"""unless the earlier list ends with them."""
MOST_RUNS = 500
"""Runs that are looked for; beyond them two lists are too different for an alignment to say anything."""
_FACTOR = 0x9E3779B97F4A7C15
_BITS = (1 << 64) - 1


class Run(NamedTuple):
    """Consecutive ids of one kind: in `before` from one place on, in `now` from another."""

    kind: Kind
    before: int
    now: int
    length: int


def runs(before: Sequence[int], now: Sequence[int]) -> list[Run]:
    """The runs from start to end; what stands between two kept runs was removed first, then added.

    Of equally long runs the first one in `before` is kept, at its first place in `now`. No more than `MOST_RUNS` are.
    """
    windows = _Windows(np.asarray(before, np.int64), np.asarray(now, np.int64))
    kept: list[Run] = []
    waiting = [(0, len(before), 0, len(now), len(before))]
    while waiting and len(kept) < MOST_RUNS:
        start, end, start_now, end_now, most = waiting.pop()
        run = windows.longest(start, end, start_now, end_now, most)
        if run is None and end == len(before):
            run = windows.ending(start, end, start_now, end_now)
        if run is not None:
            kept.append(run)
            waiting.append((start, run.before, start_now, run.now, run.length))
            waiting.append((run.before + run.length, end, run.now + run.length, end_now, run.length))
    return list(_filled(sorted(kept, key=lambda run: run.before), len(before), len(now)))


class _Windows:
    """Hashes of all windows of two lists: of equal windows they are equal, and what they find is compared."""

    def __init__(self, before: Array, now: Array) -> None:
        self._lists = (before, now)
        powers = np.full(max(len(before), len(now)) + 1, _FACTOR, np.uint64)
        inverse = np.full(len(powers), pow(_FACTOR, -1, _BITS + 1), np.uint64)
        powers[0] = inverse[0] = 1
        self._inverse = np.multiply.accumulate(inverse)
        powers = np.multiply.accumulate(powers)
        self._sums = tuple(
            np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(ids) * powers[: len(ids)], dtype=np.uint64)])
            for ids in self._lists
        )

    def longest(self, start: int, end: int, start_now: int, end_now: int, most: int) -> Run | None:
        """The longest run in common of two stretches, which is no longer than `most`; None for one of chance."""
        most = min(most, end - start, end_now - start_now)
        best, reached, step = None, LEAST - 1, 1
        while reached + step <= most:
            found = self._of_length(reached + step, start, end, start_now, end_now)
            if found is None:
                break
            best, reached, step = found, reached + step, 2 * step
        low, high = reached, min(most, reached + step - 1)
        while low < high:
            middle = (low + high + 1) // 2
            found = self._of_length(middle, start, end, start_now, end_now)
            if found is None:
                high = middle - 1
            else:
                best, low = found, middle
        return best

    def ending(self, start: int, end: int, start_now: int, end_now: int) -> Run | None:
        """The most ids at the end of the earlier list that the stretch has too, fewer than a run otherwise needs."""
        before, now = self._lists
        for length in range(min(LEAST - 1, end - start), LEAST_AT_END - 1, -1):
            for place in range(start_now, end_now - length + 1):
                if np.array_equal(before[end - length : end], now[place : place + length]):
                    return Run("same", end - length, place, length)
        return None

    def _of_length(self, length: int, start: int, end: int, start_now: int, end_now: int) -> Run | None:
        one, other = self._hashes(0, length, start, end), self._hashes(1, length, start_now, end_now)
        both = np.intersect1d(one, other)
        before, now = self._lists
        for at in np.flatnonzero(np.isin(one, both)).tolist():
            for at_now in np.flatnonzero(other == one[at]).tolist():
                i, j = start + at, start_now + at_now
                if np.array_equal(before[i : i + length], now[j : j + length]):
                    return Run("same", i, j, length)
        return None

    def _hashes(self, side: int, length: int, start: int, end: int) -> Array:
        sums = self._sums[side]
        at = slice(start, end - length + 1)
        return (sums[start + length : end + 1] - sums[at]) * self._inverse[at]


def _mixed(ids: Array) -> Array:
    """Ids spread over 64 bits, so that sums of few of them rarely meet."""
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(32))


def _filled(kept: Sequence[Run], before: int, now: int) -> Iterator[Run]:
    """The kept runs with what was removed and added between them."""
    i = j = 0
    for run in [*kept, Run("same", before, now, 0)]:
        if run.before > i:
            yield Run("removed", i, j, run.before - i)
        if run.now > j:
            yield Run("added", run.before, j, run.now - j)
        if run.length:
            yield run
        i, j = run.before + run.length, run.now + run.length
