"""One thing a doctor looked at and what it found."""

import msgspec

from checks.finding import Status


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, how it is, and what to do."""

    name: str
    """What was looked at."""
    status: Status
    """ok, info (good to know), warn, fail, or no_data (could not be looked at)."""
    said: str
    """One sentence. Text of models and templates in it is as it was: escape it where it is shown."""
    advice: str | None = None
    """What to do about it."""
    detail: dict[str, int | float | str | bool | None] = {}
    """Numbers and names behind it."""

    @property
    def wrong(self) -> bool:
        """Whether something should be done about it."""
        return self.status in ("warn", "fail")
