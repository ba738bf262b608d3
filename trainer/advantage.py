"""Advantages of sessions from their rewards: against the group, else the adapter's batch, else a running baseline.

Missing is missing: a session without a reward has no advantage and enters no mean.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from checks.group_advantage import all_equal, group_advantages

Method = Literal["group", "leave_one_out", "running"]
NoAdvantage = Literal["no_reward", "not_finite", "zero_variance", "no_baseline"]

LARGEST = float(np.finfo(np.float32).max)
"""A reward beyond it is not finite where advantages are computed with."""


class RewardedSession(NamedTuple):
    """A closed session of one adapter's batch."""

    session_id: str
    group_id: str | None
    reward: float | None


class Advantage(NamedTuple):
    """A session's advantage and what it is relative to; or why there is none."""

    session_id: str
    value: float | None
    method: Method | None = None
    reason: NoAdvantage | None = None


class RunningBaseline(NamedTuple):
    """Mean reward of an adapter's earlier batches, older ones weighing less."""

    mean: float | None = None
    """None before the first rewarded session."""
    decay: float = 0.9
    """Weight of the past when a new batch comes in."""

    def after(self, rewards: Sequence[float]) -> "RunningBaseline":
        """The baseline once a batch with these rewards has been used."""
        if not rewards:
            return self
        batch = math.fsum(rewards) / len(rewards)
        return self._replace(mean=batch if self.mean is None else self.decay * self.mean + (1 - self.decay) * batch)


class Advantages(NamedTuple):
    """The advantages of one adapter's batch."""

    sessions: tuple[Advantage, ...]
    """One for each session given, in their order."""
    zero_variance_groups: int
    """Groups of two or more whose rewards are all the same: dropped, for they give no gradient."""
    baseline: RunningBaseline
    """To be kept for the next batch."""


def advantages(
    sessions: Sequence[RewardedSession], baseline: RunningBaseline, *, scale: Literal["deviation", "none"] = "deviation"
) -> Advantages:
    """Advantages of one adapter's batch; `scale` divides a group's by its population standard deviation, or not."""
    rewards = {each.session_id: each.reward for each in sessions if each.reward is not None}
    finite = {name: reward for name, reward in rewards.items() if abs(reward) <= LARGEST}
    found = {name: Advantage(name, None, reason="not_finite") for name in rewards if name not in finite}
    zero_variance = 0
    for members in _groups(each for each in sessions if each.session_id in finite):
        relative = _relative([finite[name] for name in members], scale)
        zero_variance += relative is None
        for index, name in enumerate(members):
            value = None if relative is None else relative[index]
            found[name] = Advantage(name, value, "group", "zero_variance" if relative is None else None)
    for name in finite:
        if name not in found:
            found[name] = _without_group(name, finite, baseline)
    given = tuple(found.get(each.session_id, Advantage(each.session_id, None, reason="no_reward")) for each in sessions)
    return Advantages(given, zero_variance, baseline.after(list(finite.values())))


def _groups(sessions: Iterable[RewardedSession]) -> list[list[str]]:
    """The groups of two or more."""
    by_group: dict[str, list[str]] = {}
    for each in sessions:
        if each.group_id is not None:
            by_group.setdefault(each.group_id, []).append(each.session_id)
    return [members for members in by_group.values() if len(members) > 1]


def _relative(rewards: Sequence[float], scale: str) -> list[float] | None:
    """Rewards less their mean, over their population standard deviation or not; None where all are the same."""
    if all_equal(rewards):
        return None
    if scale == "deviation":
        return group_advantages(rewards)
    mean = math.fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def _without_group(name: str, finite: dict[str, float], baseline: RunningBaseline) -> Advantage:
    """Against the others of the batch, else against the past."""
    others = [reward for other, reward in finite.items() if other != name]
    if others:
        mean = math.fsum(others) / len(others)
        return Advantage(name, finite[name] - mean, "leave_one_out")
    if baseline.mean is not None:
        return Advantage(name, finite[name] - baseline.mean, "running")
    return Advantage(name, None, reason="no_baseline")
