"""Unbiased pass@k: the chance that at least one of k samples of a task succeeds."""

import math

import numpy as np

EXACT_UP_TO = 1000
"""Samples of a task up to which binomials are whole numbers."""


def pass_at_k(samples: int, successes: int, k: int) -> float | None:
    """1 - C(samples - successes, k) / C(samples, k); None where k is more than there are samples.

    Correctly rounded up to 1,000 samples, and to about 1e-12 relative beyond, without overflow.
    """
    if not 0 <= successes <= samples or k < 1:
        raise ValueError(
            f"{successes} successes of {samples} samples at k = {k}, expected 0 <= successes <= samples, k >= 1"
        )
    if k > samples:
        return None
    failures = samples - successes
    if k > failures:
        return 1.0
    if samples <= EXACT_UP_TO:
        all_ways = math.comb(samples, k)
        return (all_ways - math.comb(failures, k)) / all_ways
    # The product of (1 - k / i) over the last `successes` i, or the same with k and successes exchanged.
    few, many = sorted((k, successes))
    factors = -many / np.arange(samples - few + 1, samples + 1, dtype=np.float64)
    return -math.expm1(math.fsum(np.log1p(factors)))
