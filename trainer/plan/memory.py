"""Bytes: KV cache per token and per rollout, trainer state, and how many rollouts fit in what is left."""

import math

from trainer.plan.model_shape import ModelShape
from trainer.plan.quantity import require_count, require_not_negative, require_positive, require_whole

BF16_BYTES = 2
ADAM_BYTES_PER_PARAMETER = 16
"""Mixed-precision Adam: 2 weights + 2 gradients + 12 of float32 master, momentum and variance (ZeRO; lecture 12, 2)."""


def kv_bytes_per_token(*, layers: int, kv_heads: int, head_width: int, entry_bytes: int = BF16_BYTES) -> int:
    """Bytes one token keeps in the cache: a key and a value per layer and KV head. Lecture 12, section 2."""
    require_count(layers=layers, kv_heads=kv_heads, head_width=head_width, entry_bytes=entry_bytes)
    return 2 * layers * kv_heads * head_width * entry_bytes


def kv_bytes(*, tokens: int, bytes_per_token: int) -> int:
    """Bytes that `tokens` cached tokens take, before the allocator's rounding. Lecture 12, section 2."""
    require_whole(tokens=tokens)
    require_count(bytes_per_token=bytes_per_token)
    return tokens * bytes_per_token


def rollouts_that_fit(*, cache_bytes: float, rollout_bytes: float) -> int:
    """Whole rollouts in a cache. Lecture 12, exercise 1."""
    require_not_negative(cache_bytes=cache_bytes)
    require_positive(rollout_bytes=rollout_bytes)
    return math.floor(cache_bytes / rollout_bytes)


def weight_bytes(parameters: int) -> int:
    """Bytes of bf16 weights."""
    require_count(parameters=parameters)
    return BF16_BYTES * parameters


def full_training_bytes(parameters: int) -> int:
    """Weights, gradients and optimizer of training every parameter with mixed-precision Adam. Lecture 12, section 2."""
    require_count(parameters=parameters)
    return ADAM_BYTES_PER_PARAMETER * parameters


def lora_parameters(shape: ModelShape, *, rank: int) -> int:
    """Parameters of one adapter: rank x (d_in + d_out) per adapted matrix. Lecture 12, section 7."""
    require_count(rank=rank)
    return sum(rank * (each.d_in + each.d_out) * each.count for each in shape.attention_and_dense_matrices)


def lora_training_bytes(parameters: int, *, adapter_parameters: int) -> int:
    """A frozen bf16 base, which has no gradient and no optimizer, and one adapter under mixed-precision Adam."""
    require_count(parameters=parameters, adapter_parameters=adapter_parameters)
    return BF16_BYTES * parameters + ADAM_BYTES_PER_PARAMETER * adapter_parameters


def checkpointed_input_bytes(*, tokens: int, layers: int, hidden: int) -> int:
    """Activations kept under full checkpointing: one bf16 input per layer and token. Lecture 12, section 3."""
    require_count(tokens=tokens, layers=layers, hidden=hidden)
    return BF16_BYTES * tokens * layers * hidden


def left_bytes(usable_bytes: float, **used_bytes: float) -> float:
    """What is left of memory after everything named; below zero, it does not fit. Lecture 12, section 2."""
    require_positive(usable_bytes=usable_bytes)
    require_not_negative(**used_bytes)
    return usable_bytes - sum(used_bytes.values())
