"""Onsets by the clock, where that gives another order than the steps do."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from checks.ranking import Move, Ranked


class _Onset(NamedTuple):
    """One move whose time is known."""

    said: str
    first: int
    last: int
    at: datetime


def against_the_clock(ranked: Sequence[Ranked]) -> Iterator[str]:
    """What to say of each adapter, and of their first movers, whose order by step is not that by time.

    A log of a run that was begun again, or two runs in one, has later steps at earlier times; and two adapters count
    their steps each for itself.
    """
    for each in ranked:
        whose = "" if len(ranked) == 1 else f" for {_name(each)}"
        if turned := _turned([_onset(move.signal, move) for move in each.moves]):
            yield f"by the clock the order is another{whose}: {turned}"
    firsts = [_onset(f"{_name(each)} {each.moves[0].signal}", each.moves[0]) for each in ranked if each.moves]
    if turned := _turned(firsts):
        yield f"by the clock the adapters moved in another order: {turned}"


def said_time(at: datetime) -> str:
    """A time as reports say it."""
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def _name(ranked: Ranked) -> str:
    return ranked.adapter or "no adapter"


def _onset(said: str, move: Move) -> _Onset | None:
    return None if move.at is None else _Onset(said, move.first, move.last, move.at)


def _turned(onsets: Sequence[_Onset | None]) -> str:
    """The onsets by time, if some that is surely earlier by step is later by time; else empty."""
    known = [each for each in onsets if each is not None]
    if not any(one.last < other.first and one.at > other.at for one in known for other in known):
        return ""
    return ", ".join(f"{each.said} {said_time(each.at)}" for each in sorted(known, key=lambda each: each.at))
