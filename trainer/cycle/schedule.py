"""When the next cycle starts. Pure: the clock, the time zone and what has happened are given."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, NamedTuple

from collector.errors import UserError
from trainer.cycle.schedule_config import ScheduleConfig

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_WINDOW = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")


class IdleWindow(NamedTuple):
    """A time of day within which a cycle may start; one that ends before it starts ends on the next day."""

    opens: time
    closes: time

    def __str__(self) -> str:
        return f"{self.opens:%H:%M}-{self.closes:%H:%M}"


class Schedule(NamedTuple):
    """What starts a cycle: the time, or enough feedback, whichever comes first, inside a window where there are any."""

    every: timedelta | None = None
    min_feedback: int | None = None
    windows: tuple[IdleWindow, ...] = ()

    @property
    def repeats(self) -> bool:
        """Whether there is ever another cycle."""
        return self.every is not None or self.min_feedback is not None


class Past(NamedTuple):
    """What the store says of earlier cycles."""

    began_at: datetime | None
    """When the last cycle began; None when there was none."""
    ended: bool
    """Whether it came to its end. One that was killed is due at once."""
    new_feedback: int
    """Feedback that came in after it began."""


class Due(NamedTuple):
    """Whether a cycle starts now, and otherwise when."""

    now: bool
    at: datetime | None
    """When the clock alone will start it; None when only feedback can."""
    reason: str
    """For a person: what started it, or what is waited for."""


def duration(text: str, what: str) -> timedelta:
    """A duration such as 30m, 5h or 1d; `what` names the option that holds it."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UserError(f"{what} is {text!r}, expected a number and s, m, h or d, as in 30m, 5h or 1d")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def idle_window(text: str) -> IdleWindow:
    """A window such as 01:00-06:00."""
    match = _WINDOW.fullmatch(text)
    if match is None or text[:5] == text[6:]:
        raise UserError(f"idle_windows holds {text!r}, expected two different local times, as in 01:00-06:00")
    opening, closing = (int(match[1]), int(match[2])), (int(match[3]), int(match[4]))
    return IdleWindow(time(*opening), time(*closing))


def schedule_of(config: ScheduleConfig, *, every: str | None = None, min_feedback: int | None = None) -> Schedule:
    """The schedule of the section, with what the command line says instead."""
    text, name = (every, "--every") if every is not None else (config.every, "[trainer.schedule] every")
    return Schedule(
        None if text is None else duration(text, name),
        config.min_feedback if min_feedback is None else min_feedback,
        tuple(idle_window(each) for each in config.idle_windows),
    )


def due(schedule: Schedule, past: Past, now: datetime, zone: tzinfo | None = None) -> Due:
    """Whether a cycle starts now. `zone` is that of the windows; None is this machine's."""
    wanted_at, why = _wanted(schedule, past, now)
    if wanted_at is None:
        return Due(False, None, why)
    opens_at = _opening(schedule.windows, max(wanted_at, now), zone)
    if opens_at <= now:
        return Due(True, now, why)
    if wanted_at > now and opens_at == wanted_at:
        return Due(False, opens_at, why)
    windows = " or ".join(str(window) for window in schedule.windows)
    return Due(False, opens_at, f"{why}; cycles start within {windows}")


def _wanted(schedule: Schedule, past: Past, now: datetime) -> tuple[datetime | None, str]:
    """When a cycle is wanted, windows apart, and why."""
    if past.began_at is not None and not past.ended:
        return now, "the last cycle was cut short"
    if schedule.min_feedback is not None and past.new_feedback >= schedule.min_feedback:
        return now, f"{past.new_feedback} feedback records are new, {schedule.min_feedback} are enough"
    if schedule.every is not None:
        # A start in the future was written by a clock that was wrong.
        if past.began_at is None or past.began_at > now:
            return now, "no cycle has run yet"
        next_at = past.began_at + schedule.every
        late = now - next_at
        if late < timedelta(0):
            return next_at, "by the time since the last one began"
        return next_at, "the time has come" if late < schedule.every else "a cycle was missed"
    if schedule.min_feedback is None:
        return None, "nothing starts another cycle"
    return None, f"{past.new_feedback} of {schedule.min_feedback} feedback records are in"


def _opening(windows: Sequence[IdleWindow], at: datetime, zone: tzinfo | None) -> datetime:
    """The first moment from `at` on that lies in a window; `at` itself where there is none to wait for."""
    if not windows:
        return at
    today = at.astimezone(zone).date()
    candidates: list[datetime] = []
    # A window of the day before may reach into this one, and the next one may open tomorrow.
    # One that the clocks were put forward over is not there on that day, so that the day after may have the next.
    for day in (today + timedelta(days=days) for days in (-1, 0, 1, 2)):
        for window in windows:
            opens, closes = _bounds(window, day, zone)
            if opens < closes and at < closes:
                candidates.append(max(opens, at))
    return min(candidates)


def _bounds(window: IdleWindow, day: date, zone: tzinfo | None) -> tuple[datetime, datetime]:
    closing_day = day + timedelta(days=1) if window.closes < window.opens else day
    return _utc(day, window.opens, zone), _utc(closing_day, window.closes, zone)


def _utc(day: date, at: time, zone: tzinfo | None) -> datetime:
    """A wall-clock time as UTC; without a zone Python asks the system, daylight saving included."""
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)
