"""The funnel of one adapter: from what was captured to what was trained on, and whose gradient it is."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from trainer.batch.ledger import Ledger
from trainer.batch.reasons import STAGES, stage_of
from trainer.batch.tenant_capture import TurnFacts

_NAMED_USERS = 20
OTHERS = "others"
"""The users that are not named, together."""


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many turns, and how many tokens they sampled."""

    turns: int
    tokens: int


class FunnelStage(msgspec.Struct, frozen=True, kw_only=True):
    """What passed one stage, and what left there."""

    stage: str
    passed: Count
    left_out: dict[str, Count]
    """By reason; with what passed they are what came in."""


class Funnel(msgspec.Struct, frozen=True, kw_only=True):
    """Every turn that was captured of an adapter's tenant, in exactly one place."""

    captured: Count
    stages: list[FunnelStage]
    """exact, rewarded, eligible and trained, each of what passed the one before."""
    batch_sessions: list[int]
    """Sessions of each update batch; 1 is a step from a single sample."""
    zero_variance_groups: int
    """Groups of sessions whose rewards are all the same."""
    users: int
    """Users, or sessions of unknown users, that the gradient is from."""
    share_by_user: dict[str, float]
    """User to the share of the sum of |advantage| x tokens, the largest first; empty where nothing is trained on."""
    share_by_version: dict[str, float]
    """The same by the version that sampled the tokens."""
    ignored_feedback: dict[str, int]
    """The tenant's feedback that does not count, by reason."""


class Pull(NamedTuple):
    """What one trained turn adds to the gradient."""

    user: str
    version: int
    mass: float
    """|advantage| x tokens."""


def funnel(
    ledger: Ledger,
    pulls: Iterable[Pull],
    *,
    batch_sessions: list[int],
    zero_variance_groups: int,
    ignored_feedback: Mapping[str, int],
) -> Funnel:
    """The account of a ledger whose kept turns are trained on."""
    by_reason: dict[str | None, list[TurnFacts]] = {}
    for turn in ledger.turns:
        by_reason.setdefault(ledger.reason(turn), []).append(turn)
    counts = {reason: _count(turns) for reason, turns in by_reason.items()}
    left = captured = _sum(counts.values())
    stages: list[FunnelStage] = []
    for stage in STAGES:
        left_out = {name: count for name, count in counts.items() if name is not None and stage_of(name) == stage}
        gone = _sum(left_out.values())
        left = Count(turns=left.turns - gone.turns, tokens=left.tokens - gone.tokens)
        by_size = sorted(left_out.items(), key=lambda each: (-each[1].turns, each[0]))
        stages.append(FunnelStage(stage=stage, passed=left, left_out=dict(by_size)))
    pulled = list(pulls)
    by_user = _shares((pull.user, pull.mass) for pull in pulled)
    return Funnel(
        captured=captured,
        stages=stages,
        batch_sessions=batch_sessions,
        zero_variance_groups=zero_variance_groups,
        users=len(by_user),
        share_by_user=_largest(by_user),
        share_by_version=_shares((str(pull.version), pull.mass) for pull in pulled),
        ignored_feedback={reason: count for reason, count in sorted(ignored_feedback.items()) if count},
    )


def _count(turns: list[TurnFacts]) -> Count:
    return Count(turns=len(turns), tokens=sum(turn.tokens for turn in turns))


def _sum(counts: Iterable[Count]) -> Count:
    each = list(counts)
    return Count(turns=sum(count.turns for count in each), tokens=sum(count.tokens for count in each))


def _shares(masses: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Each one's share of all, the largest first."""
    by_name: dict[str, list[float]] = {}
    for name, mass in masses:
        by_name.setdefault(name, []).append(mass)
    sums = {name: math.fsum(its) for name, its in by_name.items()}
    total = math.fsum(sums.values())
    return {name: mass / total for name, mass in sorted(sums.items(), key=lambda each: (-each[1], each[0]))}


def _largest(shares: dict[str, float]) -> dict[str, float]:
    named = list(shares.items())
    rest = math.fsum(share for _, share in named[_NAMED_USERS:])
    return dict(named[:_NAMED_USERS]) | ({OTHERS: rest} if len(named) > _NAMED_USERS else {})
