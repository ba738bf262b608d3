"""Publishing weights: a full copy, a LoRA adapter, or a bf16 delta; bytes, seconds and the entropy bound."""

import math

from trainer.plan.quantity import require_count, require_positive, require_share

BF16_BYTES = 2
_BITS = 8


def copy_seconds(*, size_bytes: float, link_bytes_per_s: float) -> float:
    """One copy over one link. Lecture 12, section 4."""
    require_positive(size_bytes=size_bytes, link_bytes_per_s=link_bytes_per_s)
    return size_bytes / link_bytes_per_s


def varint_bytes_per_gap(changed_share: float) -> float:
    """Mean bytes of one position gap, 7 bits a byte, when values change independently. Lecture 12, section 4.

    A gap needs more than k bytes when it is at least 2^(7k), with probability (1 - share)^(2^(7k) - 1).
    """
    _require_changed(changed_share)
    total, more = 0.0, 1.0
    for at_least in range(1, 10):
        total += more
        more = (1 - changed_share) ** (2.0 ** (7 * at_least) - 1)
    return total


def entropy_bits_per_gap(changed_share: float) -> float:
    """Least bits a coder needs per changed position: H(share) / share. Lecture 12, section 4."""
    _require_changed(changed_share)
    if changed_share == 1:
        return 0.0
    unchanged = 1 - changed_share
    entropy = -changed_share * math.log2(changed_share) - unchanged * math.log2(unchanged)
    return entropy / changed_share


def delta_bytes(*, parameters: float, changed_share: float) -> float:
    """A delta as `trainer.delta` writes it: changed bf16 values and varint gaps; its 56 bytes of frame left out."""
    require_positive(parameters=parameters)
    return parameters * changed_share * (BF16_BYTES + varint_bytes_per_gap(changed_share))


def entropy_bound_bytes(*, parameters: float, changed_share: float) -> float:
    """Changed values as they are and positions at their entropy. Lecture 12, section 4."""
    require_positive(parameters=parameters)
    return parameters * changed_share * (BF16_BYTES + entropy_bits_per_gap(changed_share) / _BITS)


def independent_changed_share(changed_share: float, *, steps: int) -> float:
    """Share that differs after `steps` if each step changed its own independent share. Lecture 12, section 4."""
    require_share(changed_share=changed_share)
    require_count(steps=steps)
    return 1 - (1 - changed_share) ** steps


def _require_changed(changed_share: float) -> None:
    require_share(changed_share=changed_share)
    require_positive(changed_share=changed_share)
