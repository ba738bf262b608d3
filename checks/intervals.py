"""Sets of seconds: unions of intervals, what is left of one without another, and their length."""

from collections.abc import Iterable

Interval = tuple[float, float]
"""Start and end in seconds."""


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals in order, overlapping and touching ones joined, empty ones dropped."""
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def without(whole: Iterable[Interval], removed: Iterable[Interval]) -> list[Interval]:
    """What is in the first set and not in the second."""
    left: list[Interval] = []
    holes = union(removed)
    first = 0
    for start, end in union(whole):
        while first < len(holes) and holes[first][1] <= start:
            first += 1
        at = first
        while at < len(holes) and holes[at][0] < end:
            if holes[at][0] > start:
                left.append((start, holes[at][0]))
            start = max(start, holes[at][1])
            at += 1
        if start < end:
            left.append((start, end))
    return left


def common(one: Iterable[Interval], other: Iterable[Interval]) -> list[Interval]:
    """What is in both sets."""
    kept = union(one)
    return without(kept, without(kept, other))


def total(intervals: Iterable[Interval]) -> float:
    """Seconds in the set; overlaps count once."""
    return sum(end - start for start, end in union(intervals))
