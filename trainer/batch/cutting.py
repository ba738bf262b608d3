"""Cutting what waits into update batches: whole groups, the oldest first."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from trainer.batch.batch_config import BatchConfig
from trainer.batch.tenant_capture import CapturedSession


class Unit(NamedTuple):
    """Sessions that stay together: those of one group, or one alone."""

    sessions: tuple[CapturedSession, ...]


class Cut(NamedTuple):
    """Units in batches."""

    batches: tuple[tuple[Unit, ...], ...]
    waiting: tuple[Unit, ...]
    """Too few sessions for a batch: they wait for more."""


def units(sessions: Sequence[CapturedSession]) -> list[Unit]:
    """Sessions by group, in the order in which each group's first session stands."""
    by_group: dict[tuple[str, str], list[CapturedSession]] = {}
    for session in sessions:
        key = ("session", session.session_id) if session.group_id is None else ("group", session.group_id)
        by_group.setdefault(key, []).append(session)
    return [Unit(tuple(members)) for members in by_group.values()]


def cut(waiting: Sequence[Unit], config: BatchConfig, usable: Callable[[Unit, int], int]) -> Cut:
    """Fills one batch after the other.

    `usable` is how many of a unit's sessions can still be trained on in the i-th batch; a unit with none is in no
    batch. A batch is full when the next unit would take it past `batch_sessions`.
    """
    batches: list[list[Unit]] = [[]]
    count = 0
    for unit in waiting:
        size = usable(unit, len(batches) - 1)
        if count >= config.min_sessions and count + size > config.batch_sessions:
            batches.append([])
            count, size = 0, usable(unit, len(batches) - 1)
        if size:
            batches[-1].append(unit)
            count += size
    rest: list[Unit] = []
    if count < config.min_sessions:
        rest = batches.pop()
        if batches:
            batches[-1] += rest
            rest = []
    return Cut(tuple(map(tuple, batches)), tuple(rest))
