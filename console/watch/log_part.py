"""The newest part of a log, by which it is shown while the rest is read."""

import msgspec


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """What is held of a log before all of it was read."""

    turns: int
    """How many turns the part has; 0 where nothing of the log can be shown yet."""
    share: float | None = None
    """How much of the log was read so far; None where that cannot be told."""

    @property
    def said(self) -> str:
        """Which part it is, and how far the rest is, in words."""
        return f"newest {self.turns:,} turn{'s' * (self.turns != 1)}; {self.reading}"

    @property
    def reading(self) -> str:
        """How far it is; in whole percents, and never 100 before the end."""
        return "reading" if self.share is None else f"reading {int(100 * self.share)} %"
