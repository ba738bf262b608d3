"""Log-probabilities and entropies of chosen tokens, a chunk at a time: no logits of a whole batch are ever held."""

from typing import Any

import torch
from torch import Tensor

CHUNK_TOKENS = 256
"""Tokens whose logits exist at a time: 50 MB of float32 for a vocabulary of 49,152."""


class _TokenLogprobs(torch.autograd.Function):
    """log softmax(h W / T)[target] per token, its logits computed again in the backward pass. The head is frozen."""

    @staticmethod
    # Any: autograd's context carries whatever is put on it.
    def forward(ctx: Any, hidden_N_H: Tensor, head_V_H: Tensor, targets_N: Tensor, temperatures_N: Tensor, chunk: int):
        logprobs: list[Tensor] = []
        entropies: list[Tensor] = []
        for part in _parts(len(targets_N), chunk):
            logs = _log_softmax(hidden_N_H[part], head_V_H, temperatures_N[part])
            logprobs.append(logs.gather(1, targets_N[part, None])[:, 0])
            entropies.append(-logs.exp().mul_(logs).sum(1))
        ctx.save_for_backward(hidden_N_H, head_V_H, targets_N, temperatures_N)
        ctx.chunk = chunk
        entropies_N = torch.cat(entropies)
        ctx.mark_non_differentiable(entropies_N)
        return torch.cat(logprobs), entropies_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor):
        hidden_N_H, head_V_H, targets_N, temperatures_N = ctx.saved_tensors
        grad_N = grads[0]
        parts: list[Tensor] = []
        for part in _parts(len(targets_N), ctx.chunk):
            # d log p[target] / d logits = -(softmax - onehot) / T. A token's own factor comes after the product: before
            # it, a small one would make most of a row denormal, which a CPU multiplies 10 times slower, or 0.
            slope = _log_softmax(hidden_N_H[part], head_V_H, temperatures_N[part]).exp_()
            slope[torch.arange(len(slope)), targets_N[part]] -= 1
            factor = -(grad_N[part] / temperatures_N[part]).to(slope.dtype)
            parts.append((slope.to(head_V_H.dtype) @ head_V_H) * factor[:, None])
        return torch.cat(parts).to(hidden_N_H.dtype), None, None, None, None


def token_logprobs(
    hidden_N_H: Tensor, head_V_H: Tensor, targets_N: Tensor, temperatures_N: Tensor, *, chunk: int = CHUNK_TOKENS
) -> tuple[Tensor, Tensor]:
    """log pi of each target at its temperature, with gradient to the hidden states, and the entropy there, without.

    Both are nats, float32 (float64 where the hidden states are), from `softmax(h W / T)` of the full vocabulary.
    """
    if head_V_H.requires_grad:
        raise ValueError("the output embedding requires a gradient, expected it frozen")
    if not len(targets_N):
        none = hidden_N_H.new_zeros(0, dtype=_wide(hidden_N_H.dtype))
        return none, none
    return _TokenLogprobs.apply(hidden_N_H, head_V_H, targets_N, temperatures_N, chunk)  # type: ignore[no-any-return]


def _log_softmax(hidden_N_H: Tensor, head_V_H: Tensor, temperatures_N: Tensor) -> Tensor:
    logits = hidden_N_H.to(head_V_H.dtype) @ head_V_H.T
    wide = logits.to(_wide(logits.dtype))
    return wide.div_(temperatures_N.to(wide.dtype)[:, None]).log_softmax(1)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _parts(count: int, chunk: int) -> list[slice]:
    return [slice(start, start + chunk) for start in range(0, count, chunk)]
