"""Which tasks a cycle tries: a fresh slice of the suite each time, and the earlier fixes."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple


class Plan(NamedTuple):
    """The tasks of one cycle, the same for the candidate, live and the pinned best."""

    fresh: tuple[str, ...]
    """The slice: what versions are compared on."""
    fixes: tuple[str, ...]
    """Tasks that an earlier version fixed: none may fall back. Some may be in the slice too."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.fresh, *self.fixes)))


def fresh_slice(task_ids: Sequence[str], *, tasks: int, cycle: int, seed: int) -> tuple[str, ...]:
    """The tasks of one cycle, from 0: a walk through the suite in an order that the seed alone decides.

    Every task is used once before any is used again. A slice larger than the suite is the whole suite.
    """
    if cycle < 0 or tasks < 1:
        raise ValueError(f"cycle {cycle} and {tasks} tasks, expected cycle >= 0 and at least one task")
    order = sorted(task_ids, key=lambda task_id: _place(seed, task_id))
    count = min(tasks, len(order))
    start = cycle * count
    return tuple(order[(start + index) % len(order)] for index in range(count))


def plan(task_ids: Sequence[str], fixes: Sequence[str], *, tasks: int, most_fixes: int, cycle: int, seed: int) -> Plan:
    """The slice of a cycle and the earlier fixes of it; more fixes than `most_fixes` take turns."""
    known = set(task_ids)
    kept = [task_id for task_id in fixes if task_id in known]
    turn = fresh_slice(kept, tasks=most_fixes, cycle=cycle, seed=seed) if kept and most_fixes else ()
    return Plan(fresh_slice(task_ids, tasks=tasks, cycle=cycle, seed=seed), turn)


def sampling_seed(seed: int, suite: str, task_id: str, sample: int) -> int:
    """The seed of one reply, the same for every version: 31 bits, as engines take it."""
    digest = hashlib.sha256(repr((seed, suite, task_id, sample)).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _place(seed: int, task_id: str) -> bytes:
    return hashlib.sha256(repr((seed, task_id)).encode()).digest()
