"""What each turn's sampling was worth: its session's advantage, plus the advantage of the turn's own reward."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from checks.group_advantage import ABSOLUTE, all_equal
from trainer.advantage import LARGEST, Advantage, RewardedSession, RunningBaseline, advantages
from trainer.batch.batch_config import BatchConfig
from trainer.batch.branches import rewarded_places
from trainer.batch.ledger import Ledger
from trainer.batch.session_rewards import SessionRewards
from trainer.batch.tenant_capture import CapturedSession, Place, TenantCapture

_COMPARED = ("already_trained", "off_lineage", "too_stale")
"""Sessions left out for these were the adapter's own all the same: a group is compared with them too."""


class Credit(NamedTuple):
    """The advantages of the turns that are kept."""

    by_place: Mapping[Place, float]
    zero_variance_groups: int


def give_credit(
    ledger: Ledger, capture: TenantCapture, rewards: SessionRewards, baseline: float | None, config: BatchConfig
) -> Credit:
    """The advantages of the kept turns; those that have none are left out.

    Return of a turn = its session's reward + its own, so its advantage is the sum of both, each against its own kind:
    session rewards against session rewards, turn rewards against those of other sessions' turns.
    """
    kept = [session for session in ledger.sessions.values() if ledger.kept(session)]
    of_sessions = advantages(
        [rewards.rewarded(session) for session in kept],
        RunningBaseline(baseline),
        scale=config.scale,
        earlier=_earlier(ledger, kept, rewards),
    )
    of_turns = _turn_advantages(ledger, kept, rewards)
    by_place: dict[Place, float] = {}
    for session, of_session in zip(kept, of_sessions.sessions, strict=True):
        events = capture.events.get(session.session_id, ())
        reached = rewarded_places(session, events, config.session_reward_to)
        for turn in ledger.kept(session):
            parts = [of_turns[turn.place]] if turn.place in of_turns else []
            if turn.place in reached and of_session.reason != "no_reward":
                parts.insert(0, of_session)
            found = _summed(parts)
            if isinstance(found, str):
                ledger.leave_out(turn, found)
            else:
                by_place[turn.place] = found
    return Credit(by_place, of_sessions.zero_variance_groups)


def _summed(parts: Sequence[Advantage]) -> float | str:
    """The sum of the advantages there are, or the reason why there is none."""
    values = [part.value for part in parts if part.value is not None]
    if not values:
        # A kept turn has a reward of its own or its session's, and so a part.
        reason = parts[0].reason
        assert reason is not None
        return "reward_not_finite" if reason == "not_finite" else reason
    total = math.fsum(values)
    # Rewards that differ by no more are the same to `all_equal`; an optimizer that normalises would make a step of it.
    if abs(total) <= ABSOLUTE:
        return "zero_advantage"
    return total if abs(total) <= LARGEST else "reward_not_finite"


def _earlier(ledger: Ledger, kept: Sequence[CapturedSession], rewards: SessionRewards) -> list[RewardedSession]:
    """Sessions of the kept ones' groups that have no turn left to train on."""
    names = {session.session_id for session in kept}
    groups = {session.group_id for session in kept} - {None}
    return [
        rewards.rewarded(session)
        for session in ledger.sessions.values()
        if session.session_id not in names
        and session.group_id in groups
        and any(ledger.reason(turn) in _COMPARED for turn in session.turns)
    ]


def _turn_advantages(
    ledger: Ledger, kept: Sequence[CapturedSession], rewards: SessionRewards
) -> dict[Place, Advantage]:
    """Each turn's own reward less the mean of the turn rewards of other sessions.

    Those of its own session came after it or led to it: they are no baseline that the turn has no part in.
    """
    kept_turns = [turn for session in kept for turn in ledger.kept(session)]
    judged = [(turn, reward) for turn in kept_turns if (reward := rewards.of_turn(turn)) is not None]
    by_session: dict[str, list[float]] = {}
    for turn, reward in judged:
        if abs(reward) <= LARGEST:
            by_session.setdefault(turn.session_id, []).append(reward)
    finite = [reward for its in by_session.values() for reward in its]
    sums = {name: math.fsum(its) for name, its in by_session.items()}
    total, same = math.fsum(finite), bool(finite) and all_equal(finite)
    found: dict[Place, Advantage] = {}
    for turn, reward in judged:
        name = turn.session_id
        others = len(finite) - len(by_session.get(name, ()))
        if abs(reward) > LARGEST:
            found[turn.place] = Advantage(name, None, reason="not_finite")
        elif not others:
            found[turn.place] = Advantage(name, None, reason="no_baseline")
        elif same:
            found[turn.place] = Advantage(name, None, reason="zero_variance")
        else:
            found[turn.place] = Advantage(name, reward - (total - sums[name]) / others, "leave_one_out")
    return found
