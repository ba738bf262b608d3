"""Which engine worker serves which turns of a session, kept as the turns at which it changes."""

from bisect import bisect_right
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from collector.records import Event
from collector.turn_record import Plan

PLACED = "worker"
"""Kind of the events that tell it: the turn's session from that turn on, the worker in `detail`."""


class _Detail(msgspec.Struct, frozen=True):
    worker: str | None = None


class Told(NamedTuple):
    """From this turn on the session's turns are served by this worker, until the next one is told."""

    turn: int
    worker: str


class Placements:
    """The changes of one session."""

    def __init__(self, told: Mapping[int, str] | None = None) -> None:
        """`told` is what was stored: turn to worker."""
        self._turns = sorted(told or ())
        self._workers = [(told or {})[turn] for turn in self._turns]

    def at(self, turn: int) -> str | None:
        """The worker of a turn; None when none was told so far."""
        place = bisect_right(self._turns, turn)
        return self._workers[place - 1] if place else None

    def put(self, turn: int, worker: str, *, last_turn: int) -> list[Told]:
        """Takes in who serves a turn; what has to be told of it, so that the turns after it stay where they are."""
        changes: list[Told] = []
        after = self.at(turn + 1)
        if self.at(turn) != worker:
            changes.append(Told(turn, worker))
            # A turn that moves while later ones run is an exception among them.
            if turn < last_turn and after is not None and after != worker and turn + 1 not in self._turns:
                changes.append(Told(turn + 1, after))
        for change in changes:
            self._set(change)
        return changes

    def _set(self, change: Told) -> None:
        place = bisect_right(self._turns, change.turn)
        if place and self._turns[place - 1] == change.turn:
            self._workers[place - 1] = change.worker
        else:
            self._turns.insert(place, change.turn)
            self._workers.insert(place, change.worker)


def placed_event(plan: Plan, told: Told, why: str) -> Event:
    """Tells from which turn on a session's turns are served by which worker."""
    own = told.turn == plan.turn
    return Event(
        at=datetime.now(UTC),
        kind=PLACED,
        session_id=plan.session_id,
        turn=told.turn,
        adapter=plan.target.adapter,
        version=plan.target.version,
        actor="collector",
        text=f"served by {told.worker}" + (f": {why}" if own else ", as before"),
        detail={"worker": told.worker},
    )


def placed_worker(detail: object) -> str | None:
    """The worker that an event's detail names; None where it names none."""
    try:
        return msgspec.convert(detail, _Detail).worker
    except msgspec.ValidationError:
        return None
