"""What reads the tokens beside the feed, and what it has found so far."""

from typing import TYPE_CHECKING, Protocol

from console.watch.held import Tokens

if TYPE_CHECKING:
    from console.watch.source.log_rows import LogRows


class TokenReading(Protocol):
    """Reads all tokens of what is watched, in its own time; used by the reading thread."""

    @property
    def tokens(self) -> Tokens:
        """What was found so far."""
        ...

    def poll(self) -> bool:
        """Whether there is more than at the last call; never waits."""
        ...

    @property
    def signal(self) -> int | None:
        """A descriptor that becomes readable when there is more; None where nothing comes any more."""
        ...

    def nudge(self) -> None:
        """What is read was written to: it looks once more."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


class LogReading(TokenReading, Protocol):
    """Reads all of a log."""

    def take_rows(self) -> "LogRows | None":
        """Its rows, once, when all were read; None before, and where they were not asked for."""
        ...
