"""Importance weights at one position: what truncating them at a cap costs."""

from collections.abc import Sequence

from trainer.plan.quantity import require_positive, require_share


def importance_weight(*, mu: float, pi: float) -> float:
    """w = pi / mu. Lecture 12, section 1."""
    require_share(mu=mu, pi=pi)
    require_positive(mu=mu)
    return pi / mu


def truncation_bias_factor(*, mu: float, pi: float, cap: float) -> float:
    """What multiplies f in one token's bias: pi - cap x mu where w exceeds the cap, else 0. Lecture 12, section 1."""
    require_share(mu=mu, pi=pi)
    require_positive(cap=cap)
    return max(0.0, pi - cap * mu)


def truncation_bias(mu: Sequence[float], pi: Sequence[float], f: Sequence[float], *, cap: float) -> float:
    """E_pi[f] - E_mu[min(w, cap) f] at one position. Lecture 12, section 1."""
    if not len(mu) == len(pi) == len(f):
        raise ValueError(f"mu, pi and f have {len(mu)}, {len(pi)} and {len(f)} tokens, expected the same")
    return sum(truncation_bias_factor(mu=m, pi=p, cap=cap) * value for m, p, value in zip(mu, pi, f, strict=True))
