"""How long a list of rollouts takes on a number of slots: static and continuous batching, bounds, idle slots."""

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from trainer.plan.quantity import require_count, require_positive


class Makespans(NamedTuple):
    """The same rollouts under two schedules, between the bounds that hold for any list."""

    static_s: float
    continuous_s: float
    lower_bound_s: float
    upper_bound_s: float
    slot_utilisation: float
    """Busy slot-seconds over all slot-seconds of the continuous schedule."""
    straggler_cost_s: float
    """What the continuous schedule takes beyond a perfect packing of the same work."""


def static_makespan_s(durations_s: Sequence[float], *, slots: int) -> float:
    """A batch's slots come free together, when its longest rollout ends. Lecture 12, section 2."""
    _require_schedule(durations_s, slots)
    return sum(max(durations_s[first : first + slots]) for first in range(0, len(durations_s), slots))


def continuous_makespan_s(durations_s: Sequence[float], *, slots: int) -> float:
    """A waiting rollout takes a slot the moment one comes free (Orca). Lecture 12, section 2."""
    _require_schedule(durations_s, slots)
    free_at = [0.0] * min(slots, len(durations_s))
    for duration in durations_s:
        heapq.heapreplace(free_at, free_at[0] + duration)
    return max(free_at)


def lower_bound_s(durations_s: Sequence[float], *, slots: int) -> float:
    """No schedule beats the longest rollout, nor the work spread evenly. Lecture 12, section 2."""
    _require_schedule(durations_s, slots)
    return max(max(durations_s), math.fsum(durations_s) / slots)


def upper_bound_s(durations_s: Sequence[float], *, slots: int) -> float:
    """No order of a refilled queue takes longer (Graham's list-scheduling bound). Lecture 12, section 2."""
    _require_schedule(durations_s, slots)
    return math.fsum(durations_s) / slots + (1 - 1 / slots) * max(durations_s)


def equal_makespan_s(*, rollouts: int, slots: int, duration_s: float) -> float:
    """Whole waves of equal rollouts. Lecture 12, section 2."""
    require_count(rollouts=rollouts, slots=slots)
    require_positive(duration_s=duration_s)
    return math.ceil(rollouts / slots) * duration_s


def compare_makespans(durations_s: Sequence[float], *, slots: int) -> Makespans:
    """Both schedules, both bounds, and what the longest rollouts cost. Lecture 12, sections 2 and 6."""
    continuous = continuous_makespan_s(durations_s, slots=slots)
    perfect = math.fsum(durations_s) / slots
    return Makespans(
        static_s=static_makespan_s(durations_s, slots=slots),
        continuous_s=continuous,
        lower_bound_s=lower_bound_s(durations_s, slots=slots),
        upper_bound_s=upper_bound_s(durations_s, slots=slots),
        slot_utilisation=perfect / continuous,
        straggler_cost_s=continuous - perfect,
    )


def _require_schedule(durations_s: Sequence[float], slots: int) -> None:
    require_count(slots=slots)
    if not durations_s:
        raise ValueError("there are no rollouts, expected at least one duration")
    for duration in durations_s:
        require_positive(duration_s=duration)
