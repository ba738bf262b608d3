"""What made a token's importance weight what it is: version lag, engine and trainer, wrong ids, or not to be told."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from checks.weights.kinds import CLOSER
from console.watch.trace.turn_tokens import OUTLIER
from console.watch.trace.weight_segments import Segment

Answer = Literal["within_bounds", "version_lag", "engine_mismatch", "wrong_ids", "unknown", "not_finite", "no_ratio"]
WORDS: dict[Answer, str] = {
    "within_bounds": "nothing to explain",
    "version_lag": "version lag",
    "engine_mismatch": "engine and trainer differ",
    "wrong_ids": "wrong ids",
    "unknown": "unknown",
    "not_finite": "not a finite number",
    "no_ratio": "no ratio",
}
_OF_KIND: dict[str | None, Answer] = {
    "stale": "version_lag",
    "mismatch_at_equal_version": "engine_mismatch",
    "unscaled_temperature": "engine_mismatch",
    "base_model_served": "engine_mismatch",
    "zero_padded": "engine_mismatch",
}
MEAN_ABS = 0.03
"""Mean |log w| of a segment from which its every token is explained: where importance-weight warns."""
CERTAIN = -2.0
"""log w below which a token with mu exactly 1 at lag 0 was not sampled, as importance-weight tells it."""


class WrongIds(msgspec.Struct, frozen=True, kw_only=True):
    """Completion tokens whose ids are not those that were seen elsewhere."""

    start: int
    end: int
    text: str
    on_mean: float | None = None
    """Mean |log w| of those of them that count."""
    off_mean: float | None = None
    """The same of the other tokens, on no such span; None where there is none."""

    def explains(self) -> bool | None:
        """Whether the weights are off here more than elsewhere; None where there is no elsewhere to compare with."""
        if self.on_mean is None or self.off_mean is None:
            return None
        return self.off_mean <= CLOSER * self.on_mean


class Verdict(msgspec.Struct, frozen=True):
    """The answer, the check's kind where there is one, and what speaks for it."""

    answer: Answer
    kind: str | None
    text: str


def verdict(
    index: int,
    *,
    mu: float | None,
    pi_old: float | None,
    pi_gen: float | None,
    segments: Sequence[Segment],
    wrong: Sequence[WrongIds],
) -> Verdict:
    """Of one completion token."""
    if mu is None or pi_old is None:
        return Verdict("no_ratio", None, f"{'sampled' if mu is None else 'trainer'}_logprobs were not logged for it")
    log_w = pi_old - mu
    if not math.isfinite(log_w):
        return Verdict("not_finite", "not_finite", f"mu {mu:g}, pi_old {pi_old:g} (log)")
    segment = next((each for each in segments if each.start <= index < each.end), None)
    if abs(log_w) <= OUTLIER and (segment is None or segment.mean_abs is None or segment.mean_abs <= MEAN_ABS):
        return Verdict("within_bounds", None, f"w {math.exp(log_w):.4g}")
    if segment is not None and segment.lag == 0 and mu == 0.0 and log_w < CERTAIN:
        return Verdict("engine_mismatch", "zero_padded", "mu is exactly 1 and the trainer doubts the token: filled in")
    drifted = pi_gen is not None and abs(pi_old - pi_gen) > abs(pi_gen - mu)
    on_span = next((each for each in wrong if each.start <= index < each.end), None)
    if on_span is not None and not drifted and on_span.explains():
        return Verdict("wrong_ids", None, on_span.text)
    if segment is None:
        return Verdict("unknown", None, "the token is masked, and the checks do not count it")
    answer = _OF_KIND.get(segment.kind, "unknown")
    if answer == "unknown" and on_span is not None and not drifted and on_span.explains() is None:
        return Verdict("wrong_ids", None, on_span.text)
    return Verdict(answer, segment.kind, segment.text)
