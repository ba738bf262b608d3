"""What a screen asks for and what it is given."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

if TYPE_CHECKING:
    from checks.log import Log
    from console.watch.held import Held


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What most screens want to see now. A topic may have a frozen struct of its own; asks are only compared."""

    adapter: str | None = None
    """Of this adapter only; None for all."""
    selected: tuple[str, ...] = ()
    """What the cursor stands on, outermost first, such as session, turn, token."""
    filter: str = ""
    """In the grammar of `frame.filter`."""
    sort: str = ""
    """Column to sort by; empty for the topic's own order."""
    descending: bool = False
    first: int = 0
    """First row wanted of a long list."""
    count: int = 50
    """How many rows are wanted of it."""
    wide: bool = False
    """All columns."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What one screen shows: plain values, and its own JSON. Long lists are windows with their total beside."""


A = TypeVar("A", bound=msgspec.Struct)
OpenLog = Callable[[], "Log"]
"""Opens what is watched for reading single sessions: `log().batches(columns, scores, sessions=[id])`. It may be slow,
and raises StoreError; it is called in the feed's thread."""


class Topic(NamedTuple, Generic[A]):
    """One screen's content.

    Convention: `console.watch.views.<name>` has `TOPIC`, or a function `topic(tools)` where it reads tokens, and
    `console.watch.plain.<name>` has `plain_<name>(view, width) -> list[str]`.
    """

    name: str
    build: Callable[["Held", A, OpenLog], View]
    """Called in the feed's thread, when what is held or what is asked has changed."""
