"""Advantages of sessions from their rewards: against the group, else the adapter's batch, else a running baseline.

Missing is missing: a session without a reward has no advantage and enters no mean.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeGuard

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
    sessions: Sequence[RewardedSession],
    baseline: RunningBaseline,
    *,
    scale: Literal["deviation", "none"] = "deviation",
    earlier: Sequence[RewardedSession] = (),
) -> Advantages:
    """Advantages of one adapter's batch; `scale` divides a group's by its population standard deviation, or not.

    `earlier` are sessions of the same groups that are not in the batch: their groups are compared with them too, and
    they count nowhere else.
    """
    finite = {each.session_id: each.reward for each in sessions if _is_finite(each.reward)}
    compared = {each.session_id: each.reward for each in (*sessions, *earlier) if _is_finite(each.reward)}
    found: dict[str, Advantage] = {}
    zero_variance = 0
    for members in _groups(each for each in (*sessions, *earlier) if each.session_id in compared):
        relative = _relative([compared[name] for name in members], scale)
        zero_variance += relative is None and not finite.keys().isdisjoint(members)
        for index, name in enumerate(members):
            found[name] = _advantage(name, None if relative is None else relative[index], "group")
    alone = [name for name in finite if name not in found]
    found |= {each.session_id: each for each in _without_group(alone, finite, baseline)}
    given = tuple(found[each.session_id] if each.session_id in found else _without_reward(each) for each in sessions)
    return Advantages(given, zero_variance, baseline.after(list(finite.values())))


def _is_finite(reward: float | None) -> TypeGuard[float]:
    return reward is not None and abs(reward) <= LARGEST


def _without_reward(session: RewardedSession) -> Advantage:
    return Advantage(session.session_id, None, reason="no_reward" if session.reward is None else "not_finite")


def _advantage(name: str, value: float | None, method: Method) -> Advantage:
    """`value` is None where all rewards that were compared are the same."""
    if value is None:
        return Advantage(name, None, method, "zero_variance")
    return Advantage(name, value, method) if _is_finite(value) else Advantage(name, None, method, "not_finite")


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


def _without_group(alone: Sequence[str], finite: Mapping[str, float], baseline: RunningBaseline) -> list[Advantage]:
    """Against the others of the batch, else against the past."""
    rewards = list(finite.values())
    if len(rewards) > 1:
        total, same = math.fsum(rewards), all_equal(rewards)
        others = len(rewards) - 1
        return [
            _advantage(name, None if same else finite[name] - (total - finite[name]) / others, "leave_one_out")
            for name in alone
        ]
    if baseline.mean is None:
        return [Advantage(name, None, reason="no_baseline") for name in alone]
    same = all_equal([*rewards, baseline.mean])
    return [_advantage(name, None if same else finite[name] - baseline.mean, "running") for name in alone]
