"""What a step minimises, every formula of it: importance weight, clipped ratio, KL to the base, and their sum.

Token-level, over the trained tokens of one adapter. Shapes: N is trained tokens; all log-probabilities are nats.
w = pi_old/mu corrects for who sampled; r = pi/pi_old is what the update changes. They are never one number.
Sources: the clipped surrogate is Schulman et al. 2017 (arXiv 1707.06347), eq. 7; truncated importance sampling is
Ionides 2008 and, for language models served by another engine, Yao et al. 2025; the KL estimator is Schulman's k3.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.objective_config import ObjectiveConfig


class TokenTerms(NamedTuple):
    """The trained tokens of one adapter in one microbatch, in any order; all of shape N."""

    logprobs_N: Tensor
    """log pi, with gradient."""
    old_logprobs_N: Tensor
    """log pi_old, fixed at the start of the update batch."""
    sampled_logprobs_N: Tensor
    """log mu, as the engine recorded it."""
    advantages_N: Tensor
    """Advantage of the token."""
    turns_N: Tensor
    """Which turn sampled the token, 0 to the number of turns - 1; read by the sequence variant only."""
    reference_logprobs_N: Tensor | None = None
    """log of the base model's probability; needed where kl_base is not 0."""


class TokenLosses(NamedTuple):
    """What each token adds to the objective, and what was done to it."""

    loss_N: Tensor
    """To be summed over the step and divided by the adapter's trained tokens of the whole step."""
    w_N: Tensor
    """pi_old/mu, raw, without gradient."""
    weight_N: Tensor
    """What multiplied the surrogate, without gradient."""
    truncated_N: Tensor
    """bool: the weight is not the raw w of the token (or of its turn)."""
    clipped_N: Tensor
    """bool: the clip holds the ratio, so that the token gives no policy gradient."""


def token_losses(terms: TokenTerms, config: ObjectiveConfig) -> TokenLosses:
    """The loss of each token: weight x -min(r A, clip(r) A) + kl_base x k3. Needs every token of a turn."""
    _check(terms, config)
    log_w = (terms.old_logprobs_N - terms.sampled_logprobs_N).detach()
    return weighted_losses(terms, *importance_weights(log_w, terms.turns_N, config), config)


def weighted_losses(terms: TokenTerms, weight_N: Tensor, truncated_N: Tensor, config: ObjectiveConfig) -> TokenLosses:
    """The same with the importance weights given, which may be asked about any of a turn's tokens."""
    _check(terms, config)
    w = (terms.old_logprobs_N - terms.sampled_logprobs_N).detach().exp()
    surrogate, clipped = clipped_surrogate(terms.logprobs_N - terms.old_logprobs_N, terms.advantages_N, config)
    loss = -weight_N * surrogate
    if config.kl_base:
        assert terms.reference_logprobs_N is not None
        loss = loss + config.kl_base * kl_k3(terms.logprobs_N, terms.reference_logprobs_N)
    return TokenLosses(loss, w, weight_N, truncated_N, clipped)


def importance_weights(log_w_N: Tensor, turns_N: Tensor, config: ObjectiveConfig) -> tuple[Tensor, Tensor]:
    """The factor of each token and whether it differs from the raw w, both without gradient."""
    if config.importance == "none":
        return torch.ones_like(log_w_N), torch.zeros_like(log_w_N, dtype=torch.bool)
    if config.importance == "sequence":
        turns = int(turns_N.max()) + 1 if turns_N.numel() else 0
        log_w_N = log_w_N.new_zeros(turns).index_add(0, turns_N, log_w_N)[turns_N]
    w = log_w_N.exp()
    if config.importance == "mask":
        outside = (w > config.w_max) | (w < 1 / config.w_max)
        return w.masked_fill(outside, 0.0), outside
    return w.clamp(max=config.w_max), w > config.w_max


def clipped_surrogate(log_r_N: Tensor, advantages_N: Tensor, config: ObjectiveConfig) -> tuple[Tensor, Tensor]:
    """min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), and where the clip holds."""
    r = log_r_N.exp()
    free = r * advantages_N
    if not config.clip:
        return free, torch.zeros_like(free, dtype=torch.bool)
    held = r.clamp(1 - config.clip_low, 1 + config.clip_high) * advantages_N
    return torch.minimum(free, held), held < free


def kl_k3(logprobs_N: Tensor, reference_logprobs_N: Tensor) -> Tensor:
    """Per token q/p - 1 - log(q/p) for p sampled from and q the reference: never negative, unbiased for KL(p, q)."""
    log_ratio = reference_logprobs_N - logprobs_N
    return torch.expm1(log_ratio) - log_ratio


def _check(terms: TokenTerms, config: ObjectiveConfig) -> None:
    """Lengths that disagree stop the computation, as does a reference that is needed and missing."""
    tokens = terms.logprobs_N.shape
    for name, values in terms._asdict().items():
        if values is not None and values.shape != tokens:
            raise ValueError(f"{name} has shape {tuple(values.shape)}, expected {tuple(tokens)} as logprobs_N has")
    if config.kl_base and terms.reference_logprobs_N is None:
        raise ValueError(f"kl_base is {config.kl_base} and there are no reference log-probabilities, expected them")
