"""What the words of a report mean: the kinds of faults, the metrics and the signals, and which check each is of."""

import re
from typing import NamedTuple


class Word(NamedTuple):
    """A kind, a metric or a signal."""

    check: str
    """The check that reports it."""
    meaning: str


KINDS: dict[str, dict[str, str]] = {
    "importance-weight": {
        "mismatch_at_equal_version": "trainer and engine disagree on tokens of the very version being trained",
        "stale": "they disagree on tokens of older versions, and the more the older",
        "unscaled_temperature": "the engine's log-probabilities are those before the temperature was applied",
        "base_model_served": "the sampled tokens fit the base model, not the adapter",
        "zero_padded": "a log-probability of exactly 0 for a token that was not certain: filled in, not sampled",
        "not_finite": "a log-probability is NaN or infinite, or w is too large for a float",
    },
    "staleness": {
        "stale": "tokens older, in optimizer steps, than the threshold",
        "version_from_the_future": "tokens of a version later than the step that trains on them",
    },
    "mfu": {"impossible": "above 1: the FLOPs, the time or the peak is wrong"},
    "entropy": {
        "logprob_above_zero": "a log-probability above 0: the probability would exceed 1",
        "not_finite": "the entropy logged for a step is NaN or infinite",
    },
    "grad-norm": {"not_finite": "the gradient norm is NaN or infinite"},
    "prefix-break": {
        "reasoning_stripped": "the thinking of an earlier reply is gone from the history",
        "empty_think_block": "an empty thinking block was put in or taken out",
        "tool_call_reserialized": "an earlier tool call was written anew: key order, spaces, escapes",
        "system_prompt_changed": "the system prompt is another one",
        "retokenized": "the same text as other ids",
        "stop_token_replaced": "the token that ended the reply was replaced or left out",
        "compaction": "the history was replaced by a summary; info when it was declared",
        "other": "none of these, or ids alone cannot tell (--tokenizer tells more)",
    },
    "retokenization-drift": {
        "drift": "decoding and encoding the reply gives other ids",
        "invalid_utf8": "the reply does not decode to whole characters",
    },
    "template-mismatch": {
        "separator_missing": "what the template puts between two turns is not there",
        "duplicate_bos": "the token that begins a text stands twice",
        "other": "the prompt differs from the template's rendering in another way",
    },
    "length-mismatch": {
        "length_mismatch": "ids, log-probabilities, mask, spans or routes of one turn have different lengths",
        "token_not_sampled": "the last token was put there by the framework, not sampled",
    },
    "loss-mask": {
        "not_sampled": "trained on, but not sampled by the model",
        "masked_out": "sampled by the model, but not trained on",
    },
    "served-adapter": {
        "base_model_served": "the engine answers as the base model does",
        "previous_version_served": "the engine answers as the version before does",
        "undecided": "the probes cannot tell",
    },
}
"""Check to kind to what it means. A check that is not here has one kind of fault only."""

METRICS: dict[str, Word] = {
    "max_w": Word("importance-weight", "largest w = pi_old / mu of a token"),
    "min_w": Word("importance-weight", "smallest w of a token"),
    "mean_w": Word("importance-weight", "mean w; 1 where trainer and engine agree"),
    "kl_k1": Word("importance-weight", "mean of log mu - log pi_old, nats"),
    "kl_k3": Word("importance-weight", "mean of w - 1 - log w, nats"),
    "ess": Word("importance-weight", "effective sample size, a fraction: (sum w)^2 / (n sum w^2)"),
    "mean_abs_dlogp": Word("importance-weight", "mean |log pi_old - log mu|, nats"),
    "confident_disagreement": Word("importance-weight", "share of tokens with mu >= 0.5 and log w < -2"),
    "staleness_mean": Word("staleness", "mean staleness of a token, optimizer steps"),
    "staleness_min": Word("staleness", "least staleness of a token; negative is an error"),
    "staleness_max": Word("staleness", "greatest staleness of a token"),
    "mixed_version_turns": Word("staleness", "turns that more than one version sampled"),
    "stall_trainer_s": Word("stall-time", "seconds in which the trainer waited"),
    "stall_trainer_share": Word("stall-time", "share of the time in which the trainer waited"),
    "stall_engine_s": Word("stall-time", "seconds in which the engine waited"),
    "stall_both_s": Word("stall-time", "seconds in which both waited"),
    "stall_any_s": Word("stall-time", "seconds in which at least one waited"),
    "mfu": Word("mfu", "model FLOPs over the peak of the hardware"),
    "entropy_mean": Word("entropy", "mean entropy of the full distribution, nats"),
    "entropy_sampled_estimate": Word("entropy", "mean of -log mu of the sampled tokens, nats"),
    "grad_norm_max": Word("grad-norm", "largest gradient norm before clipping"),
    "reward_train_last": Word("reward-eval-gap", "train reward at the last step"),
    "reward_eval_last": Word("reward-eval-gap", "held-out score at the last evaluation"),
    "reward_eval_gap_last": Word("reward-eval-gap", "train reward less held-out score, at the last evaluation"),
    "pass_at_1": Word("pass-at-k", "share of samples that pass"),
    "pass_at_k": Word("pass-at-k", "chance that one of k samples passes, without bias (pass_at_8 and so on)"),
    "prefix_breaks": Word("prefix-break", "turns that do not extend the turn they continue"),
    "drift_turns": Word("retokenization-drift", "turns whose reply encodes to other ids"),
    "truncated_share": Word("truncation", "share of turns cut by the length limit"),
    "duplicate_prefix_share": Word("duplicate-prefix", "share of tokens that prefix sharing would save"),
}
"""Metric to its check and meaning; `pass_at_k` stands for every k."""

SIGNALS: dict[str, Word] = {
    "max w": Word("importance-weight", "the largest importance weight, with min w, KL and ESS beside it"),
    "mean staleness": Word("staleness", "how many optimizer steps old the trained tokens are"),
    "stall time": Word("stall-time", "time in which trainer or engine waits for the other"),
    "MFU": Word("mfu", "share of the hardware's arithmetic that goes into the model"),
    "train reward against held-out": Word("reward-eval-gap", "whether the reward rises where nobody trains"),
    "pass@k against pass@1": Word("pass-at-k", "whether the best of k stops gaining while the first does"),
    "entropy": Word("entropy", "how spread the policy's choices are"),
    "gradient norm": Word("grad-norm", "size of the update before clipping"),
}
"""The eight signals and the check that reports each."""

ALSO: dict[str, str] = {
    "max-w": "importance-weight",
    "min-w": "importance-weight",
    "kl": "importance-weight",
    "k1": "importance-weight",
    "k3": "importance-weight",
    "ess": "importance-weight",
    "w": "importance-weight",
    "train-reward": "reward-eval-gap",
    "held-out": "reward-eval-gap",
    "pass@k": "pass-at-k",
    "pass@1": "pass-at-k",
    "grad-norm": "grad-norm",
    "stall": "stall-time",
}
"""Further names people use for a signal."""


def spelled(name: str) -> str:
    """A name as it is compared: lower case, words joined by hyphens."""
    return "-".join(name.lower().replace("_", " ").replace("-", " ").split())


def meanings(name: str) -> list[Word]:
    """What a kind, a metric or a signal means, in each check that reports it; empty for an unknown name."""
    known, wanted = words(), spelled(name)
    return known.get(wanted) or known.get(re.sub(r"^pass(@|-at-)\d+$", "pass-at-k", wanted), [])


def words() -> dict[str, list[Word]]:
    """Every kind, metric and signal in the spelling that is compared, with the checks that report it."""
    found: dict[str, list[Word]] = {}
    for name, word in [*SIGNALS.items(), *METRICS.items()]:
        found.setdefault(spelled(name), []).append(word)
    for check, kinds in KINDS.items():
        for kind, meaning in kinds.items():
            found.setdefault(spelled(kind), []).append(Word(check, meaning))
    for name, check in ALSO.items():
        found.setdefault(name, [Word(check, f"the {check} check reports it")])
    return found
