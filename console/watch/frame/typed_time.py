"""Times as a person types them, for `b` and `:at`."""

import re
from datetime import UTC, datetime, timedelta

from collector.errors import UserError

_AGO = re.compile(r"-(\d+(?:\.\d+)?)(s|m|h|d)")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?Z?")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
EXPECTED = "expected 11:31, 11:31:02, -5m, 2026-11-29T11:31Z, or @1826 for a step"


def typed_time(text: str, newest: datetime) -> datetime:
    """The time that was typed, in UTC; a time of the day is the last such one before the newest record."""
    text = text.strip()
    try:
        if found := _AGO.fullmatch(text):
            return newest - timedelta(**{_UNITS[found[2]]: float(found[1])})
        if found := _CLOCK.fullmatch(text):
            seconds = float(found[3] or 0)
            at = newest.replace(
                hour=int(found[1]), minute=int(found[2]), second=int(seconds), microsecond=round(seconds % 1 * 1e6)
            )
            return at if at <= newest else at - timedelta(days=1)
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(f"{text[:80]!r} is no time, {EXPECTED}") from None


def step_asked(text: str) -> int | None:
    """The step that `@1826` or `step 1826` asks for; None when it asks for a time."""
    found = re.fullmatch(r"(?:@|step\s+)(\d{1,15})", text.strip())
    return int(found[1]) if found else None
