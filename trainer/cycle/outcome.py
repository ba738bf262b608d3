"""What became of a cycle: an ending for each adapter, as one line for a person and as data."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

import msgspec

Ending = Literal[
    "routed",
    "nothing_new",
    "held",
    "inconclusive",
    "undecided",
    "refuted",
    "refused",
    "superseded",
    "failed",
]
"""How a cycle ended for an adapter, or for a version that an earlier cycle left behind."""

MEANINGS: Final[Mapping[Ending, str]] = {
    "routed": "the new version passed and takes new sessions",
    "nothing_new": "too little was there to train on",
    "held": "the new version passed and waits, because a person holds the adapter",
    "inconclusive": "the evaluation cannot tell the new version from the live one; it stays a candidate",
    "undecided": "the proof cannot tell what the engine serves; the new version stays a candidate",
    "refuted": "the engine serves something else than was trained; the new version is rejected",
    "refused": "the gate found the new version worse, or could not check it; it is rejected",
    "superseded": "a newer candidate is there; this one is rejected",
    "failed": "a stage failed; the next cycle takes it up where that is possible",
}
"""Ending to what it means."""

BAD: Final[frozenset[Ending]] = frozenset({"undecided", "refuted", "refused", "failed"})
"""Endings with which `roundhouse train --once` exits with 1."""


class AdapterOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a cycle ended for one adapter."""

    adapter: str
    ending: Ending
    reason: str
    """One line for a person."""
    version: int | None = None
    """The version made or taken up; None when there was none."""
    parent: int | None = None
    """The version it was trained from."""
    recovered: bool = False
    """Whether an earlier cycle had left it behind."""
    numbers: dict[str, object] = {}
    """By stage: what it counted and measured."""


class CycleOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a cycle ended."""

    cycle: int
    """Dense per store, from 1."""
    began_at: datetime
    ended_at: datetime
    started_by: str
    """What made it start, in words."""
    adapters: tuple[AdapterOutcome, ...]

    @property
    def exit_code(self) -> int:
        """0 when every adapter ended as it should, 1 when a version was refused or a stage failed."""
        return 1 if any(each.ending in BAD for each in self.adapters) else 0
