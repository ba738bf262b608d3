"""A store of which a record's time lies ahead of this machine's clock: no age and no standing is told by that time."""

from datetime import datetime, timedelta

from console.watch.held import Held
from console.watch.replayed import TIMES, newest
from console.watch.status import AHEAD_S


def by_this_clock(held: Held, *, came_at: datetime | None, written_at: datetime) -> Held:
    """The same with its newest record by this machine's clock, and when one last came.

    `came_at` is None where none came since the store was opened. `written_at`, of its files, takes its place where the
    records' own times do not tell what was before.
    """
    until = held.read_at + timedelta(seconds=AHEAD_S)
    if held.newest_at is None or held.newest_at <= until:
        return held._replace(came_at=came_at)
    changes = [change.at for change in held.audit if change.at <= until]
    rows = newest({table: getattr(held, table) for table in TIMES}, until)
    past = max((time for time in (rows, *changes) if time is not None), default=held.newest_at)
    return held._replace(newest_at=past, ahead_at=held.newest_at, came_at=came_at or min(written_at, held.read_at))
