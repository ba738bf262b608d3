"""The slice of a cycle's work that training reads: batches of turns with their advantages, by adapter."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from collector.records import Reward
from trainer.rows import CapturedTurn


class Batch(Protocol):
    """The turns of one batch of one adapter: whole sessions."""

    @property
    def turns(self) -> Sequence[CapturedTurn]:
        """What carries no loss has a reason."""
        ...

    @property
    def advantages(self) -> Mapping[str, float]:
        """By turn id."""
        ...

    @property
    def staleness(self) -> Mapping[str, int]:
        """By turn id: optimizer steps from the version that sampled it to the weights at the start of the batch."""
        ...

    @property
    def rewards(self) -> Sequence[Reward]:
        """Those that the advantages came from."""
        ...

    @property
    def reward_mean(self) -> float | None:
        """Of the rewarded sessions."""
        ...

    @property
    def trained_on(self) -> Sequence[tuple[str, int, int]]:
        """(writer, first seq, last seq) of exactly the turns with loss."""
        ...


class Work(Protocol):
    """What one adapter is to be trained on."""

    @property
    def adapter(self) -> str:
        """Its name."""
        ...

    @property
    def batches(self) -> Sequence[Batch]:
        """In the order they are taken in."""
        ...

    @property
    def baseline(self) -> float | None:
        """The running mean of rewards, to be kept with the checkpoint."""
        ...
