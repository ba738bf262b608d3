"""When a turn may be trained on: mu is exactly what sampling used, and the record is whole."""

import math
from collections.abc import Callable

from collector.engine.wire import GREEDY_BELOW
from collector.records import Turn

REASONS = {
    "redacted": "a secret was taken out of it or of a turn that it goes on from; ids and log-probabilities with it",
    "opted_out": "its request or its tenant opted out of training, or a turn that it goes on from did",
    "no_tokens": "it was imported as text: what the model was given and sampled is not known token by token",
    "error": "the engine failed or refused",
    "aborted": "the engine ended the reply early",
    "client_gone": "the client left before the reply ended",
    "incomplete": "the reply did not reach its own end",
    "empty": "nothing was sampled",
    "length_mismatch": "ids and log-probabilities differ in number",
    "spans": "the weight-version spans do not cover every completion token exactly once",
    "expert_routes": "the experts that the engine returned are not those of every token, layer by layer",
    "not_finite": "a log-probability is not a finite number, or above 0",
    "greedy": "a temperature below 1e-6: mu is not what chose the tokens",
    "top_p": "nucleus sampling renormalises mu",
    "top_k": "top-k sampling renormalises mu",
    "min_p": "min-p sampling renormalises mu",
    "penalty": "a penalty changes the logits by what was sampled before",
    "logit_bias": "a bias changes the logits",
    "constraint": "a grammar, a schema or a forbidden stop token masks the logits",
    "logprob_mode": "the log-probabilities are not those of softmax(logits / T)",
    "retried": "another attempt at the same request is trained on: found by what other turns are on record",
    "prompt_lost": "damage took the prompt: found when the store is read, never at capture",
}
"""Why a turn is not trainable: the value of `untrainable_reason`, and what it means. The first that holds is given."""


def untrainable_reason(turn: Turn) -> str | None:
    """The first reason not to train on the turn; None when it is trainable."""
    return next((name for name, holds in _RULES.items() if holds(turn)), None)


def spans_cover(turn: Turn) -> bool:
    """Whether the version spans cover the completion tokens, in order, exactly once."""
    end = 0
    for span in turn.weight_versions:
        if span.start != end or span.end <= span.start:
            return False
        end = span.end
    return end == len(turn.completion_ids)


def _on(value: float | None, off: tuple[float, ...]) -> bool:
    return value is not None and value not in off


_RULES: dict[str, Callable[[Turn], bool]] = {
    # Decided at capture, by more than the turn alone: see `collector.privacy`.
    "redacted": lambda turn: turn.untrainable_reason == "redacted",
    "opted_out": lambda turn: turn.untrainable_reason == "opted_out",
    "no_tokens": lambda turn: turn.api.startswith("import:"),
    "error": lambda turn: turn.finish_reason == "error",
    "aborted": lambda turn: turn.finish_reason == "abort",
    "client_gone": lambda turn: turn.finish_reason == "client_gone",
    "incomplete": lambda turn: not turn.complete,
    "empty": lambda turn: not turn.completion_ids,
    "length_mismatch": lambda turn: len(turn.completion_ids) != len(turn.sampled_logprobs),
    "spans": lambda turn: not spans_cover(turn),
    "expert_routes": lambda turn: turn.untrainable_reason == "expert_routes",
    "not_finite": lambda turn: not all(math.isfinite(value) and value <= 0 for value in turn.sampled_logprobs),
    "greedy": lambda turn: turn.temperature is None or turn.temperature < GREEDY_BELOW,
    "top_p": lambda turn: _on(turn.top_p, (1.0,)),
    "top_k": lambda turn: _on(turn.top_k, (-1, 0)),
    "min_p": lambda turn: _on(turn.min_p, (0.0,)),
    "penalty": lambda turn: (
        _on(turn.presence_penalty, (0.0,))
        or _on(turn.frequency_penalty, (0.0,))
        or _on(turn.repetition_penalty, (1.0,))
    ),
    "logit_bias": lambda turn: bool(turn.logit_bias),
    "constraint": lambda turn: turn.constraint is not None,
    "logprob_mode": lambda turn: turn.logprob_mode != "scaled",
    "retried": lambda _: False,
    "prompt_lost": lambda _: False,
}
assert _RULES.keys() == REASONS.keys()
