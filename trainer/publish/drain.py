"""Withdrawing a version: no collector sends to it any more, its replies end, and the engines forget it."""

import time
from collections.abc import Callable
from typing import NamedTuple

from collector.store.registry import Acknowledgement, Registry
from trainer.publish.publisher import Publisher, Unloaded
from trainer.publish_config import PublishConfig

POLL_S = 0.05
"""Collectors look at the registry ten times a second."""


class Withdrawn(NamedTuple):
    """How a version went."""

    name: str
    dead: tuple[Acknowledgement, ...]
    """Collectors that had not acted on the new routes by the limit; they are not waited for again."""
    unloaded: Unloaded

    @property
    def text(self) -> str:
        """One line for a person."""
        parts = [f"{self.name}: unloaded from {len(self.unloaded.workers)} workers"]
        parts += [f"{each.reader} acts on revision {each.revision} since {each.at:%H:%M:%S}" for each in self.dead]
        parts += [f"left behind on {worker}: {why}" for worker, why in self.unloaded.left_behind.items()]
        return "; ".join(parts)


def wait_for_collectors(registry: Registry, revision: int, limit_s: float) -> tuple[Acknowledgement, ...]:
    """Waits until every collector acts on `revision`; those that do not by the limit."""
    deadline = time.monotonic() + limit_s
    while (behind := registry.behind(revision)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return tuple(behind)


def withdraw(
    registry: Registry,
    publisher: Publisher,
    name: str,
    *,
    revision: int,
    config: PublishConfig,
    sleep: Callable[[float], None] = time.sleep,
) -> Withdrawn:
    """Unloads a version that `revision` of the registry retired, once nobody dispatches to it.

    The engine's own unload waits for the replies under way, which finish on their version. A collector that is dead
    is taken out of those waited for; should it live, it refuses the retired name as soon as it reads the registry.
    """
    dead = wait_for_collectors(registry, revision, config.acknowledge_limit_s)
    for each in dead:
        registry.leave(each.reader)
    sleep(config.settle_s)
    return Withdrawn(name, dead, publisher.unload(name))
