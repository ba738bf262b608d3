"""Lanes of held-out evaluation where something fell: the onset, and a way to what was learned just before."""

from collections.abc import Sequence

import msgspec

from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.topic import OpenLog
from console.watch.views.fall_words import fall_text
from console.watch.views.falls import HELD_OUT, ToldFall
from console.watch.views.first_mover import FirstMover
from console.watch.views.lane import Lane, Onset
from console.watch.views.most_credit import Credited, Learner, MostCredit

LANES = (HELD_OUT, "pass_at_k")
"""Those whose checks name steps and tasks, and no token."""


class FallenLanes:
    """Leads from a lane of held-out evaluation to what training pushed hardest before it fell."""

    def __init__(self) -> None:
        self._credit = MostCredit()
        self._lanes: Kept[tuple[Lane, ...]] = Kept()

    def of(
        self, held: Held, adapter: str | None, lanes: tuple[Lane, ...], mover: FirstMover, log: OpenLog
    ) -> tuple[Lane, ...]:
        """The lanes of one adapter; the same ones where nothing of held-out evaluation fell."""
        learner = _learner(adapter, lanes, mover)
        if learner is None:
            return lanes
        credited = self._credit.of(held, learner, log)
        return self._lanes.of((lanes, mover, credited), lambda: _led(lanes, mover, credited))


def _learner(adapter: str | None, lanes: Sequence[Lane], mover: FirstMover) -> Learner | None:
    """What learned in the steps in which held-out evaluation fell."""
    if mover.falls:
        fall = mover.falls[0].fall
        return Learner(adapter, fall.version, fall.first, fall.step)
    onset = min(
        (lane.onset for lane in lanes if lane.signal in LANES and lane.onset), key=lambda each: each.last, default=None
    )
    return None if onset is None else Learner(adapter, None, onset.first, onset.last)


def _led(lanes: Sequence[Lane], mover: FirstMover, credited: Credited) -> tuple[Lane, ...]:
    if mover.falls:
        lanes = [_ranked(lane, mover.falls[0], mover) for lane in lanes]
    return tuple(_with_way(lane, credited) if _is_of(lane, mover) else lane for lane in lanes)


def _is_of(lane: Lane, mover: FirstMover) -> bool:
    """Whether a lane fell, and names no token itself."""
    named = lane.place is not None and lane.place.session_id is not None
    return lane.signal in LANES and not named and (lane.onset is not None or bool(mover.falls))


def _ranked(lane: Lane, told: ToldFall, mover: FirstMover) -> Lane:
    """The lane of the fall with its onset; one that surely moved later one rank further behind."""
    fall = told.fall
    if lane.signal == HELD_OUT:
        earlier = sum(each.last < fall.first for each in mover.movers)
        tie = any(each.first <= fall.step and fall.first <= each.last for each in mover.movers)
        return _fallen(lane, told, rank=1 + earlier, tie=tie)
    if lane.onset is None or lane.onset.first <= fall.step:
        return lane
    return msgspec.structs.replace(lane, onset=msgspec.structs.replace(lane.onset, rank=lane.onset.rank + 1))


def _fallen(lane: Lane, told: ToldFall, *, rank: int, tie: bool) -> Lane:
    fall = told.fall
    quiet = lane.state in ("ok", "no_data")
    return msgspec.structs.replace(
        lane,
        state="pending" if quiet else lane.state,
        word="FELL" if quiet else lane.word,
        onset=Onset(
            first=fall.first,
            last=fall.step,
            rank=rank,
            tie=tie,
            seen=fall.step,
            part="reward_eval",
            was=fall.score.before,
            at=None if told.at is None else f"{told.at:%Y-%m-%d %H:%M:%SZ}",
        ),
        why=f"{fall_text(told, lane.label)}; {lane.why}",
    )


def _with_way(lane: Lane, credited: Credited) -> Lane:
    first = credited.faults[0].place if credited.faults else lane.place
    return msgspec.structs.replace(
        lane, place=first, faults=credited.faults, faults_total=len(credited.faults), lead=credited.lead
    )
