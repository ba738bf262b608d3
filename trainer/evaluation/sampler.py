"""What samples replies to held-out tasks."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from collector.conversation import Reply
from trainer.evaluation.suite import Task


class Wanted(NamedTuple):
    """One reply to be sampled."""

    task: Task
    sample: int
    """0-based among the replies to the task."""
    seed: int
    """The same for every version."""


class Missing(NamedTuple):
    """No reply was observed: the engine failed to give it. This says nothing of the task."""

    text: str


class Sampler(Protocol):
    """Samples from a named version."""

    def sample(self, wanted: Sequence[Wanted], model: str | None) -> list[Reply | Missing]:
        """A reply for each, in their order. `model` is `<adapter>@<version>`; None is the base model."""
        ...
