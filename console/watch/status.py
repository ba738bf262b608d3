"""How the console stands to what it reads: live or not, how old it is, and what is wrong."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from console.watch.log_part import LogPart

if TYPE_CHECKING:
    from console.watch.reading import Reading

State = Literal["reading", "part", "live", "paused", "replay", "stale", "disconnected", "no_data", "finished"]
STORE = "store"
"""Format of what is followed; any other is a log."""
STALE_S = 60.0
"""Nothing new for this long is stale."""
AHEAD_S = 60.0
"""Clocks of machines may differ by so much before a record is said to lie ahead of this one's."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What row 1 of every screen says; each state looks different there."""

    state: State
    """`reading`: nothing was read yet. `part`: a log is shown by its newest part while the rest is read. `live`: what
    was read is the newest. `paused`: the view stands still, reading goes on. `replay`: as it stood at `at`. `stale`:
    nothing new for a while. `disconnected`: the last read failed. `no_data`: read, and there is no record in it.
    `finished`: a log, which was read whole and is not followed."""
    at: datetime | None = None
    """The time that is shown: of the newest record, or of the replay; None before the first read and without data."""
    lag_s: float | None = None
    """How old the newest record is, seconds; None without one, and where it lies ahead of this machine's clock."""
    quiet_s: float | None = None
    """Stale: for how long nothing was written, seconds: by the newest record's time, or when one was last seen to
    come, whichever is later."""
    ahead_s: float | None = None
    """How far a record's time lies ahead of this machine's clock, seconds, where that is more than `AHEAD_S`."""
    behind_s: float | None = None
    """Paused or in replay: how much newer the newest record is than what is shown, seconds."""
    error: str | None = None
    """Why it is disconnected, or why it is not at the time that was asked for, in one line."""
    retry_in_s: float | None = None
    """Disconnected: seconds until the next try."""
    part: LogPart | None = None
    """Reading a log: the part that is shown, and how far it is."""


def status_of(
    reading: "Reading", mode: Literal["live", "paused", "replay"], shown: datetime | None, now: datetime
) -> Status:
    """`shown` is the time that a pause or a replay stands at."""
    newest = None if reading.held is None else reading.held.newest_at
    lag = None if newest is None or _is_ahead(newest, now) else max(0.0, (now - newest).total_seconds())
    quiet = _quiet_s(reading, now)
    ahead_at = None if reading.held is None else reading.held.ahead_at
    behind = None if newest is None or shown is None else max(0.0, (newest - shown).total_seconds())
    part = None if reading.held is None else reading.held.source.part
    state: State = mode
    retry = None
    if reading.error is not None:
        state = "disconnected"
        retry = None if reading.retry_at is None else max(0.0, (reading.retry_at - now).total_seconds())
    elif reading.held is None or (part is not None and not part.turns):
        state = "reading"
    elif part is not None:
        state = "part"
    elif mode == "live" and reading.held.is_empty:
        state = "no_data"
    elif mode == "live" and reading.held.source.format != STORE:
        state = "finished"
    elif mode == "live" and quiet is not None and quiet > STALE_S:
        state = "stale"
    at = newest if mode == "live" else shown
    return Status(
        state=state,
        at=at,
        lag_s=lag,
        quiet_s=quiet if state == "stale" else None,
        ahead_s=(ahead_at - now).total_seconds() if ahead_at is not None and _is_ahead(ahead_at, now) else None,
        behind_s=None if mode == "live" else behind,
        error=reading.error,
        retry_in_s=retry,
        part=part if state in ("reading", "part") else None,
    )


def _quiet_s(reading: "Reading", now: datetime) -> float | None:
    """Since when nothing was written, seconds; None where nothing tells."""
    held = reading.held
    told = () if held is None else (held.newest_at, held.came_at)
    past = [time for time in told if time is not None and not _is_ahead(time, now)]
    return max(0.0, (now - max(past)).total_seconds()) if past else None


def _is_ahead(time: datetime, now: datetime) -> bool:
    return (time - now).total_seconds() > AHEAD_S


def worth_telling(before: Status, now: Status) -> bool:
    """Whether a screen should be drawn for it: ages are told ever more rarely the older they are."""
    if (before.state, before.at, before.error) != (now.state, now.at, now.error):
        return True
    if before.part is not now.part and (before.part is None or now.part is None or before.part.said != now.part.said):
        return True
    if (before.retry_in_s is None) != (now.retry_in_s is None):
        return True
    retried = before.retry_in_s is not None and now.retry_in_s is not None and now.retry_in_s > before.retry_in_s
    ages = ((before.lag_s, now.lag_s), (before.quiet_s, now.quiet_s), (before.ahead_s, now.ahead_s))
    return retried or any(_aged(*one) for one in ages) or _aged(before.behind_s, now.behind_s)


def _aged(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= max(1.0, 0.1 * now)
