"""Which signal moved first, of one adapter: frozen while its incident lasts, so that it can be read."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from checks.ranking import Move, Ranked
from checks.wall_clock import against_the_clock
from console.watch.views.fall_words import fall_text
from console.watch.views.fall_words import hint_of as fall_hint
from console.watch.views.falls import HELD_OUT, ToldFall

_HINTS: tuple[tuple[str, frozenset[str], str], ...] = (
    ("staleness", frozenset({"max_w"}), "stale data"),
    ("staleness", frozenset(), "the trainer falls behind"),
    ("stall", frozenset({"staleness"}), "waiting makes samples old"),
    ("stall", frozenset(), "slow rollouts or publishing"),
    ("max_w", frozenset(), "trainer and engine disagree"),
    ("grad_norm", frozenset({"entropy"}), "one update too large"),
    ("grad_norm", frozenset(), "learning rate or reward scale"),
    ("entropy", frozenset({"pass_at_k"}), "diversity collapses"),
    ("entropy", frozenset(), "entropy or KL term"),
    ("reward_eval_gap", frozenset(), "the reward is gamed"),
    ("pass_at_k", frozenset(), "diversity is lost"),
    ("mfu", frozenset(), "padding, microbatch or waiting"),
)
"""First mover, what must have followed, and what such a pattern usually is. A look-up, not a finding."""


class Mover(msgspec.Struct, frozen=True, kw_only=True):
    """One signal that left its band."""

    signal: str
    part: str
    first: int
    last: int
    after: int
    """Steps after the first mover."""
    rank: int
    tie: bool
    ties_before: bool
    """Whether it cannot be told from the one before it in the list."""
    seen: int
    was: float
    score: float
    at: datetime | None = None
    """When the step `last` ended."""
    late: bool = False
    """Whether it moved after the ranking was frozen; it stands behind, whatever its onset."""


class FirstMover(msgspec.Struct, frozen=True, kw_only=True):
    """The ranking of one adapter."""

    movers: tuple[Mover, ...] = ()
    steady: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Signals without data, or with too little for a baseline: never ranked."""
    hint: str | None = None
    """What such a pattern usually is; always said to be a hint."""
    clock: tuple[str, ...] = ()
    """What to say where the order by time is another one."""
    frozen_at: int | None = None
    """The newest step when it was frozen."""
    falls: tuple[ToldFall, ...] = ()
    """Where held-out evaluation has no baseline yet: versions that surely fell on it, oldest first."""

    @property
    def onset(self) -> int | None:
        """The earliest step at which something can have moved."""
        steps = [*(each.first for each in self.movers), *(each.fall.first for each in self.falls)]
        return min(steps, default=None)


class FrozenRanking:
    """Holds the ranking of each adapter from its first move on, until nothing is out of its band."""

    def __init__(self) -> None:
        self._held: dict[str | None, FirstMover] = {}

    def of(self, ranked: Ranked, newest: int | None) -> FirstMover:
        """The ranking to show. Going back in time forgets what is frozen."""
        fresh = first_mover_of(ranked)
        before = self._held.get(ranked.adapter)
        moved_on = before is not None and newest is not None and (before.frozen_at or 0) <= newest
        if not fresh.movers or before is None or not moved_on or not _goes_on(before, fresh):
            self._held[ranked.adapter] = fresh = msgspec.structs.replace(fresh, frozen_at=newest)
            return fresh
        self._held[ranked.adapter] = held = _with_late(before, fresh)
        return held


def _goes_on(before: FirstMover, fresh: FirstMover) -> bool:
    """Whether it is still the same incident: one of its movers is out of its band."""
    return bool({each.signal for each in before.movers} & {each.signal for each in fresh.movers})


def _with_late(before: FirstMover, fresh: FirstMover) -> FirstMover:
    known = {each.signal for each in before.movers}
    start = before.movers[0].last
    rank = max(each.rank for each in before.movers)
    later = [
        msgspec.structs.replace(each, rank=rank + 1, after=each.last - start, late=True, ties_before=False)
        for each in fresh.movers
        if each.signal not in known
    ]
    movers = (*before.movers, *later)
    out = {each.signal for each in movers}
    return msgspec.structs.replace(
        fresh,
        movers=movers,
        steady=tuple(name for name in fresh.steady if name not in out),
        hint=hint_of(movers),
        clock=before.clock,
        frozen_at=before.frozen_at,
    )


def first_mover_of(ranked: Ranked) -> FirstMover:
    """The ranking as it is now."""
    movers = tuple(_mover(ranked, index) for index in range(len(ranked.moves)))
    return FirstMover(
        movers=movers,
        steady=ranked.steady,
        unknown=ranked.unknown,
        hint=hint_of(movers),
        clock=tuple(against_the_clock([ranked])),
    )


def _mover(ranked: Ranked, index: int) -> Mover:
    move = ranked.moves[index]
    return Mover(
        signal=move.signal,
        part=move.part,
        first=move.first,
        last=move.last,
        after=move.last - ranked.moves[0].last,
        rank=ranked.rank(move),
        tie=ranked.tie(move),
        ties_before=index > 0 and _overlap(ranked.moves[index - 1], move),
        seen=move.seen,
        was=move.was,
        score=move.score,
        at=move.at,
    )


def _overlap(one: Move, other: Move) -> bool:
    return other.first <= one.last and one.first <= other.last


def hint_of(movers: Sequence[Mover]) -> str | None:
    """The look-up; nothing where the first place is shared by signals that mean different things."""
    first = [each for each in movers if each.rank == 1]
    if not first:
        return None
    followed = frozenset(each.signal for each in movers)
    found = [
        next((text for name, rest, text in _HINTS if name == each.signal and rest <= followed), None) for each in first
    ]
    hints = [*dict.fromkeys(each for each in found if each)]
    return " or ".join(hints[:2]) or None


def said(view: FirstMover, labels: dict[str, str], *, short: bool = False) -> str:
    """The ranking in one line, ties as ties; the marks are those of the palette's full set."""
    parts: list[str] = []
    if view.movers:
        first = view.movers[0]
        at = "" if first.at is None or short else f" {first.at:%H:%M:%SZ}"
        words = [f"{labels[first.signal]}{'' if short else ' '}@{first.last}{at}"]
        for each in view.movers[1:]:
            joint = "=" if each.ties_before else "→"
            joint = joint if short else f" {joint} "
            name = labels[each.signal] + ("(later)" if each.late else "")
            words.append(f"{joint}{name}{'' if short else ' '}{each.after:+d}")
        parts.append("".join(words))
    if view.falls:
        parts = _with_fall(parts, view, fall_text(view.falls[0], labels[HELD_OUT], short=short))
    hint = view.hint or (fall_hint(view.falls[0]) if view.falls else None)
    if hint:
        parts.append(f"hint: {hint}")
    if view.steady:
        names = " ".join(labels[each] for each in view.steady)
        parts.append(f"{len(view.steady)} steady" if short else f"steady: {names}")
    if view.unknown and len(view.unknown) == len(labels):
        parts.append("no baseline yet" if short else "no signal has enough steps for a baseline")
    elif view.unknown:
        fallen = (HELD_OUT,) if view.falls else ()
        parts.append("n/d: " + " ".join(labels[each] for each in view.unknown if each not in fallen))
    if view.clock and not short:
        parts += view.clock
    return " ┊ ".join(parts)


def _with_fall(parts: list[str], view: FirstMover, text: str) -> list[str]:
    """The fall before the movers where it surely came first, behind them where it surely did not; else as a tie."""
    if not view.movers:
        return [text]
    fall, first = view.falls[0].fall, view.movers[0]
    if fall.step < first.first:
        return [text, f"then {parts[0]}"]
    return [f"{parts[0]} = {text}"] if fall.first <= first.last else [parts[0], f"then {text}"]
