"""Which sessions to read together, so that what is held of them at any moment fits."""

import heapq
from collections.abc import Sequence
from typing import NamedTuple


class Reading(NamedTuple):
    """A session that is to be read whole: held from its first turn in the log to its last."""

    first: int
    last: int
    session: int
    tokens: int
    """What holding it takes."""


def portion(readings: Sequence[Reading], limit: int) -> set[int]:
    """Sessions, of some ordered by their first turn, that never hold more than the limit together; at least one."""
    open_until: list[tuple[int, int]] = []
    held, chosen = 0, set[int]()
    for reading in readings:
        while open_until and open_until[0][0] < reading.first:
            held -= heapq.heappop(open_until)[1]
        if held == 0 or held + reading.tokens <= limit:
            held += reading.tokens
            heapq.heappush(open_until, (reading.last, reading.tokens))
            chosen.add(reading.session)
    return chosen
