"""Which version an engine serves, judged by how far its log-probabilities are from each version's own.

Model: the engine's number is the served version's prediction plus noise of spread sigma, the same for all tokens. The
log-likelihood ratio of two versions over the compared tokens is then the difference of their summed squared residuals
over 2 sigma². With sigma at least the true spread, a version that is not served passes a ratio of 20 nats with
probability at most Phi(-sqrt(40)) = 1.3e-10, whatever the distance between the two. Sigma is therefore never taken
below the residual of the nearest version nor below the spread measured on a version known to be served; and since
noise of one passage may be shared by its tokens, which a sum does not see, the residuals must also differ by a factor.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from trainer.engine_config import Dtype

# Any: NumPy's own parameter for a shape.
Floats = np.ndarray[Any, np.dtype[np.float64]]
Hypothesis = Literal["new", "previous", "base"]
Verdict = Literal["proved", "refuted", "undecided"]
Served = Literal["new", "previous", "base", "unknown"]

DECIDED_AT_NATS = 20.0
"""Log-likelihood ratio that decides; see the module's docstring for what it promises."""
FARTHER_BY = 3.0
"""A version that is ruled out is at least this much farther than the nearest; provisional."""
LEAST_TOKENS = 12
"""Fewer decide nothing: with noise as large as the distance, 12 tokens fall three times nearer to a wrong version once
in a million times, 8 once in ten thousand."""
FLOOR_NATS: Mapping[Dtype, float] = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}
"""Spread below which noise is never assumed: float32 as measured between an engine and transformers (5e-7 to 1e-5)."""
LIMIT_NATS: Mapping[Dtype, float] = {"float32": 2e-3, "float16": 0.05, "bfloat16": 0.25}
"""Spread that no noise reaches: beyond it something else is served. SmolLM2-135M shows 8e-6, 0.015 and 0.10."""
NOISIER_BY = 8.0
"""The new version may be so much noisier than the version known to be served; provisional."""


class Noise(NamedTuple):
    """What is known of the spread between an engine and the trainer, in nats."""

    floor: float
    expected: float
    """Above this the new version is not taken for served."""
    limit: float
    """Above this nothing known is served."""


class Judgement(NamedTuple):
    """The verdict over some tokens."""

    verdict: Verdict
    served: Served
    ratios: Mapping[Hypothesis, float]
    """Log-likelihood ratio of the new version to each other one, nats."""
    residuals: Mapping[Hypothesis, float]
    """Root mean square distance of the engine's numbers from each version's, nats."""
    tokens: int
    reason: str


def noise_of(dtype: Dtype, control: float | None) -> Noise:
    """`control` is the spread measured on a version known to be served; None where it was not."""
    floor, limit = FLOOR_NATS[dtype], LIMIT_NATS[dtype]
    if control is None or not control <= limit:
        return Noise(floor, limit, limit)
    floor = max(floor, control)
    return Noise(floor, min(limit, NOISIER_BY * floor), limit)


def judge(observed: Floats, predicted: Mapping[Hypothesis, Floats], noise: Noise) -> Judgement:
    """Compares what the engine said of some tokens with what each version would say."""
    tokens = len(observed)
    squares: dict[Hypothesis, float] = {
        name: float(((observed - numbers) ** 2).sum()) for name, numbers in predicted.items()
    }
    residuals: dict[Hypothesis, float] = {name: (square / max(tokens, 1)) ** 0.5 for name, square in squares.items()}
    nearest: Hypothesis = min(predicted, key=lambda name: residuals[name])
    sigma = max(noise.floor, residuals[nearest])
    ratios: dict[Hypothesis, float] = {
        name: (square - squares["new"]) / (2 * sigma**2) for name, square in squares.items() if name != "new"
    }
    close: list[Hypothesis] = [
        name
        for name, square in squares.items()
        if name != nearest
        and not (
            (square - squares[nearest]) / (2 * sigma**2) >= DECIDED_AT_NATS and residuals[name] >= FARTHER_BY * sigma
        )
    ]
    if tokens < LEAST_TOKENS:
        few = f"{tokens} tokens compared, expected at least {LEAST_TOKENS}"
        return Judgement("undecided", "unknown", ratios, residuals, tokens, few)
    verdict, served, reason = _verdict(nearest, close, residuals[nearest], noise)
    return Judgement(verdict, served, ratios, residuals, tokens, reason)


def _verdict(
    nearest: Hypothesis, close: list[Hypothesis], residual: float, noise: Noise
) -> tuple[Verdict, Served, str]:
    """`close` are the versions that the nearest one does not rule out."""
    if not residual <= noise.limit:
        far = f"{residual:.2g} nats from the nearest version ({nearest}), expected below {noise.limit:.2g}"
        return "refuted", "unknown", far
    if nearest != "new":
        if "new" in close:
            return "undecided", "unknown", f"nearest to the {nearest} version, and the new one is too near to it"
        return "refuted", "unknown" if close else nearest, f"nearest to the {nearest} version"
    if close:
        others = " and ".join(close)
        return "undecided", "unknown", f"nearest to the new version, but not far enough from {others}"
    if residual > noise.expected:
        noisy = f"{residual:.2g} nats from the new version, expected at most {noise.expected:.2g} by the known one"
        return "undecided", "unknown", noisy
    return "proved", "new", ""
