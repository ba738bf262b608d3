"""What every wire shape offers: a request read once, and the bytes that answer it."""

from collections.abc import Sequence
from typing import Protocol

from collector.conversation import Call, Outcome, ReplyEvent, TurnName
from collector.refusal import Refusal
from collector.shapes.problem import Problem


class Exchange(Protocol):
    """One request and its answer in one wire shape. Pure: bytes in, bytes out."""

    call: Call
    stream: bool
    left_out: tuple[str, ...]
    """Tools of the request that are not functions, and that the model is therefore not told of."""

    def problem(self, refusal: Refusal) -> Problem:
        """The whole answer when there is no reply."""
        ...

    def keep_alive(self) -> bytes:
        """What a stream carries while nothing becomes certain."""
        ...

    def opening(self, name: TurnName) -> bytes:
        """The first bytes of a stream."""
        ...

    def events(self, events: Sequence[ReplyEvent]) -> bytes:
        """What became certain, as stream events."""
        ...

    def closing(self, outcome: Outcome) -> bytes:
        """The last bytes of a stream; they are only sent when the record is durable."""
        ...

    def broken_off(self, refusal: Refusal) -> bytes:
        """The last bytes of a stream that failed."""
        ...

    def body(self, outcome: Outcome) -> bytes:
        """The whole answer when it is not streamed."""
        ...
