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

    newest_turns: int | None = None
    """How many turns the newest part of a log has, where it is of that part alone; None where it is of all there is."""


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
    of_part: bool = False
    """Whether it is built of a part of a log too, and says nothing of it that only all of the log tells."""
    most_rest_s: float | None = None
    """Longest that it may be behind what was read; None for as long as any other."""
    tells_ages: bool = False
    """Whether it is another one later though nothing was written: it tells ages, or of the last minutes."""


V = TypeVar("V", bound=View)


def of_part(name: str, build: Callable[["Held", A, OpenLog], V], *, tells_ages: bool = False) -> Topic[A]:
    """A topic that is built of a part of a log too; its views say of which."""

    def said(held: "Held", ask: A, log: OpenLog) -> View:
        view, part = build(held, ask, log), held.source.part
        return view if part is None else msgspec.structs.replace(view, newest_turns=part.turns)

    return Topic(name, said, of_part=True, tells_ages=tells_ages)
