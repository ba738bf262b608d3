"""Speculative decoding: what is accepted, how many tokens a pass yields, and how that decays as a policy drifts."""

import math
from collections.abc import Sequence

from trainer.plan.quantity import require_not_negative, require_share, require_whole

_SUM_TOLERANCE = 1e-9


def total_variation(policy: Sequence[float], drafter: Sequence[float]) -> float:
    """Half the L1 distance of two distributions over the same tokens. Lecture 12, section 2."""
    _require_distributions(policy, drafter)
    return 0.5 * math.fsum(abs(p - q) for p, q in zip(policy, drafter, strict=True))


def acceptance(policy: Sequence[float], drafter: Sequence[float]) -> float:
    """Probability that a drafted token is kept: the overlap of the two, one minus their total variation."""
    _require_distributions(policy, drafter)
    return math.fsum(min(p, q) for p, q in zip(policy, drafter, strict=True))


def output_law(policy: Sequence[float], drafter: Sequence[float]) -> list[float]:
    """Distribution of what comes out: draft and keep with min(1, p/q), else sample the positive part of p - q.

    Equal to `policy`, by Leviathan et al.; computed here the long way so that a test can say so. Lecture 12, 2.
    """
    _require_distributions(policy, drafter)
    kept = [q * min(1.0, p / q) if q > 0 else 0.0 for p, q in zip(policy, drafter, strict=True)]
    surplus = [max(0.0, p - q) for p, q in zip(policy, drafter, strict=True)]
    rejected, norm = 1.0 - math.fsum(kept), math.fsum(surplus)
    if norm == 0:
        return kept
    return [keep + rejected * more / norm for keep, more in zip(kept, surplus, strict=True)]


def tokens_per_pass(*, acceptance_rate: float, draft_tokens: int) -> float:
    """Expected tokens of one policy pass when acceptances are independent. Leviathan et al., Eq. (1)."""
    require_share(acceptance_rate=acceptance_rate)
    require_whole(draft_tokens=draft_tokens)
    if acceptance_rate == 1:
        return draft_tokens + 1.0
    return (1 - acceptance_rate ** (draft_tokens + 1)) / (1 - acceptance_rate)


def drifted_acceptance_floor(*, acceptance_rate: float, policy_drift_tv: float) -> float:
    """Least acceptance of a frozen drafter after the policy moved by `policy_drift_tv` in total variation.

    Total variation is a distance, so 1 - acceptance grows by at most the drift.
    """
    require_share(acceptance_rate=acceptance_rate, policy_drift_tv=policy_drift_tv)
    return max(0.0, acceptance_rate - policy_drift_tv)


def drift_tv_of_kl(kl_nats: float) -> float:
    """Most total variation that a KL divergence allows: the tighter of Pinsker's and Bretagnolle-Huber's bounds."""
    require_not_negative(kl_nats=kl_nats)
    return min(math.sqrt(kl_nats / 2), math.sqrt(-math.expm1(-kl_nats)))


def _require_distributions(policy: Sequence[float], drafter: Sequence[float]) -> None:
    if len(policy) != len(drafter) or not policy:
        raise ValueError(f"policy has {len(policy)} tokens and drafter {len(drafter)}, expected the same, at least one")
    for name, law in (("policy", policy), ("drafter", drafter)):
        for probability in law:
            require_share(**{f"{name}_probability": probability})
        if abs(math.fsum(law) - 1) > _SUM_TOLERANCE:
            raise ValueError(f"{name} sums to {math.fsum(law)}, expected 1")
