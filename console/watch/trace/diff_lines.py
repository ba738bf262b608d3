"""The lines of a difference between two lists of ids: long runs folded, made for a window only."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from checks.measure import Tools
from console.check_report.token_view import LONGEST_CHARACTER, token_texts
from console.watch.trace.id_diff import Run

HEAD, TAIL = 4, 2
"""Ids of a folded run that are shown at its beginning and at its end."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One id on one side."""

    position: int
    id: int
    text: str | None
    """Escaped; None without a tokenizer."""


class DiffLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line."""

    sign: str
    """` ` the same before the break, `-` removed, `+` added, `=` aligned again; `~` removed beside added, in two
    columns."""
    run: int
    """Which of the runs; of two beside each other the removed one."""
    before: Side | None = None
    now: Side | None = None
    folded: int = 0
    """Ids that this line stands for and that are not shown."""


class _Place(NamedTuple):
    """A line before it has its texts: offsets into its run or runs; None where that side has nothing."""

    run: int
    before: int | None
    now: int | None
    folded: int = 0
    sign: str = " "


class DiffLines:
    """The lines of some runs. A folded run shows its ends; `opened` are the runs shown whole."""

    def __init__(
        self, before: Sequence[int], now: Sequence[int], found: Sequence[Run], *, split: bool, opened: Collection[int]
    ) -> None:
        self._before, self._now = before, now
        self._runs = found
        self._split = split
        self._opened = opened

    def total(self) -> int:
        """How many lines there are."""
        return sum(1 for _ in self._places())

    def line_of_break(self) -> int:
        """The line of the first difference; 0 without one."""
        return next((at for at, place in enumerate(self._places()) if place.sign != " "), 0)

    def window(self, first: int, count: int, tools: Tools) -> list[DiffLine]:
        """Some of the lines."""
        places = list(islice(self._places(), first, first + count))
        texts = _Texts(self._before, tools), _Texts(self._now, tools)
        for place in places:
            texts[0].want(place.before)
            texts[1].want(place.now)
        return [
            DiffLine(
                sign=place.sign,
                run=place.run,
                before=texts[0].side(place.before),
                now=texts[1].side(place.now),
                folded=place.folded,
            )
            for place in places
        ]

    def _places(self) -> Iterator[_Place]:
        skip = -1
        for number, run in enumerate(self._runs):
            if number == skip:
                continue
            following = self._runs[number + 1] if number + 1 < len(self._runs) else None
            if self._split and run.kind == "removed" and following is not None and following.kind == "added":
                skip = number + 1
                yield from self._beside(number, run, following)
            else:
                yield from self._of_run(number, run)

    def _of_run(self, number: int, run: Run) -> Iterator[_Place]:
        sign = {"removed": "-", "added": "+", "same": "=" if number else " "}[run.kind]
        for offset, folded in self._offsets(number, run.length, first=number == 0 and run.kind == "same"):
            before = None if run.kind == "added" or folded else run.before + offset
            now = None if run.kind == "removed" or folded else run.now + offset
            yield _Place(number, before, now, folded, sign)

    def _beside(self, number: int, removed: Run, added: Run) -> Iterator[_Place]:
        """Removed ids on the left of added ones; each side folds by itself where its partner is shown."""
        left = list(self._offsets(number, removed.length)) if removed.length else []
        right = list(self._offsets(number + 1, added.length))
        for at in range(max(len(left), len(right))):
            one, other = (side[at] if at < len(side) else None for side in (left, right))
            folds = [each[1] for each in (one, other) if each is not None and each[1]]
            before = None if one is None or one[1] else removed.before + one[0]
            now = None if other is None or other[1] else added.now + other[0]
            if folds and (before is not None or now is not None):
                # A fold line never hides an id of the other side.
                sign = "-" if before is not None else "+"
                yield _Place(number, before, now, 0, sign)
                before = now = None
            if folds:
                yield _Place(number, None, None, sum(folds), "-" if one is not None and one[1] else "+")
            elif before is not None or now is not None:
                sign = "~" if before is not None and now is not None else "-" if before is not None else "+"
                yield _Place(number, before, now, 0, sign)

    def _offsets(self, number: int, length: int, *, first: bool = False) -> Iterator[tuple[int, int]]:
        """Offsets of a run with how many ids a fold stands for; what is before the break shows its end only."""
        head = 0 if first else HEAD
        tail = HEAD if first else TAIL
        if number in self._opened or length <= head + tail + 1:
            yield from ((offset, 0) for offset in range(length))
            return
        yield from ((offset, 0) for offset in range(head))
        yield head, length - head - tail
        yield from ((offset, 0) for offset in range(length - tail, length))


class _Texts:
    """Ids of one side with their texts, decoded in stretches so that no character is cut in two."""

    def __init__(self, ids: Sequence[int], tools: Tools) -> None:
        self._ids, self._tools = ids, tools
        self._wanted: list[int] = []
        self._texts: dict[int, str | None] | None = None

    def want(self, position: int | None) -> None:
        if position is not None:
            self._wanted.append(position)

    def side(self, position: int | None) -> Side | None:
        if position is None:
            return None
        if self._texts is None:
            self._texts = {}
            for start, end in _stretches(sorted(set(self._wanted))):
                ahead = max(0, start - LONGEST_CHARACTER)
                texts = token_texts(list(self._ids[ahead:end]), self._tools)
                self._texts |= dict(zip(range(start, end), texts[start - ahead :], strict=True))
        return Side(position=position, id=self._ids[position], text=self._texts[position])


def _stretches(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and end of runs of neighbouring positions."""
    start = previous = None
    for position in positions:
        if previous is None or position != previous + 1:
            if start is not None and previous is not None:
                yield start, previous + 1
            start = position
        previous = position
    if start is not None and previous is not None:
        yield start, previous + 1
