"""What the first of several training processes tells the others to do: all make the same passes in the same order.

Rank 0 alone owns store, registry, engines and evaluation. Every pass of a base that is cut over ranks gathers its
weights from all of them, so before each thing that runs the model rank 0 gives an order, and the others follow.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as distributed

from collector.errors import EngineError, UserError
from collector.records import Version
from trainer.batch.work import AdapterWork
from trainer.cycle.ports import Contexts
from trainer.publish.probe import Given
from trainer.ranks import Ranks

_LONGEST_WAIT = timedelta(days=365)
"""A trainer may wait for its schedule as long as it likes."""


class Load(NamedTuple):
    """The base model."""

    model: Path


class Train(NamedTuple):
    """A cycle's work."""

    work: Mapping[str, AdapterWork]
    parents: Mapping[str, Version]


class Predict(NamedTuple):
    """Tokens under a version, the one before it, and the base."""

    version: Version
    previous: Version
    given: Sequence[Given]


class Compare(NamedTuple):
    """KL of one version to another."""

    candidate: Version
    live: Version
    contexts: Contexts


class Stop(NamedTuple):
    """Nothing more comes."""


Order = Load | Train | Predict | Compare | Stop


class LeftOff(Exception):
    """Rank 0 does not go on with an order."""


class Orders:
    """From rank 0 to the others; nothing is sent where there are none."""

    def __init__(self, ranks: Ranks) -> None:
        """Every rank makes one at the same time."""
        self.ranks = ranks
        # Any: torch gives a number in place of a group to a process that is not in it; all are in this one.
        self._group: Any = None
        if ranks.size > 1:
            self._group = distributed.new_group(backend="gloo", timeout=_LONGEST_WAIT)

    def give(self, order: Order) -> None:
        """Rank 0: what all do now."""
        if self.ranks.rank == 0:
            self._send(order)

    def next(self) -> Order:
        """The others: waits for it. RuntimeError where rank 0 is gone."""
        return self._send(None)

    def agree(self, check: Callable[[], None]) -> None:
        """All, at the same point of an order: go on, unless `check` on rank 0 raises, which is `LeftOff` elsewhere."""
        if self.ranks.rank:
            if not self._send(None):
                raise LeftOff
            return
        go_on = False
        try:
            check()
            go_on = True
        finally:
            self._send(go_on)

    # Any: whatever rank 0 sends.
    def _send(self, value: Any) -> Any:
        if self._group is None:
            return value
        sent = [value]
        distributed.broadcast_object_list(sent, src=0, group=self._group)
        return sent[0]


@contextmanager
def leading(ranks: Ranks) -> Generator[Orders]:
    """Rank 0's orders; the last one is to stop. After any other exception the others notice that rank 0 is gone."""
    orders = Orders(ranks)
    try:
        yield orders
    except (EngineError, UserError):
        orders.give(Stop())
        raise
    orders.give(Stop())
    if ranks.size > 1:
        distributed.destroy_process_group()
