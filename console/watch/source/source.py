"""What the feed reads from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from checks.log import Log
    from console.watch.held import Held


class Source(Protocol):
    """A store or a log under watch; used by one thread."""

    def poll(self) -> "Held | None":
        """What there is, if it is not what was given last; StoreError when it cannot be read now.

        Cheap where nothing changed: the feed asks several times a second.
        """
        ...

    def signals(self) -> Sequence[int]:
        """Descriptors that become readable when there may be something new; none where only looking tells."""
        ...

    def log(self) -> "Log":
        """For reading tokens of single sessions."""
        ...

    def close(self) -> None:
        """Lets go of files and processes."""
        ...
