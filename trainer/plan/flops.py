"""Arithmetic of rows: forward and training FLOPs with the attention term, and where attention overtakes the rest."""

from collections.abc import Sequence

from trainer.plan.model_shape import ModelShape
from trainer.plan.quantity import require_count, require_not_negative, require_positive


def causal_pairs(tokens: int) -> int:
    """Query-key pairs of one causal row. Lecture 12, exercise 3."""
    require_count(tokens=tokens)
    return tokens * (tokens + 1) // 2


def attention_flops_per_pair(*, layers: int, attention_width: int) -> int:
    """A query-key product and a weighted value sum in every layer: 4 x width. Lecture 12, exercise 3."""
    require_count(layers=layers, attention_width=attention_width)
    return 4 * attention_width * layers


def forward_flops(*, tokens: float, pairs: float, matmul_parameters: float, layers: int, attention_width: int) -> float:
    """Forward pass over `tokens` positions and `pairs` query-key pairs: 2 per parameter and position, plus attention.

    Lecture 12, exercise 3. Norms, softmax and element-wise work are not counted.
    """
    require_positive(matmul_parameters=matmul_parameters)
    require_not_negative(tokens=tokens, pairs=pairs)
    pair_flops = attention_flops_per_pair(layers=layers, attention_width=attention_width)
    return 2 * matmul_parameters * tokens + pair_flops * pairs


def model_forward_flops(shape: ModelShape, *, tokens: float, pairs: float) -> float:
    """The same for a model's own sizes."""
    return forward_flops(
        tokens=tokens,
        pairs=pairs,
        matmul_parameters=shape.matmul_parameters,
        layers=shape.layers,
        attention_width=shape.attention_width,
    )


def rows_forward_flops(
    row_tokens: Sequence[int], *, matmul_parameters: float, layers: int, attention_width: int
) -> float:
    """Forward pass over whole rows, each attending to itself only."""
    return forward_flops(
        tokens=sum(row_tokens),
        pairs=sum(causal_pairs(tokens) for tokens in row_tokens),
        matmul_parameters=matmul_parameters,
        layers=layers,
        attention_width=attention_width,
    )


def attention_overtakes_at_tokens(*, matmul_parameters: float, layers: int, attention_width: int) -> float:
    """Row length at which mean attention per position equals the linear work per position. Lecture 12, exercise 3."""
    require_positive(matmul_parameters=matmul_parameters)
    pair_flops = attention_flops_per_pair(layers=layers, attention_width=attention_width)
    return 4 * matmul_parameters / pair_flops - 1


def full_training_flops(forward: float) -> float:
    """Forward and a backward pass of twice its cost. Lecture 12, section 3."""
    require_positive(forward_flops=forward)
    return 3 * forward


def lora_training_flops(
    *, tokens: int, attention_forward: float, matmul_parameters: float, adapter_parameters: int
) -> float:
    """4 per base parameter and token (no gradient of a frozen weight), 6 per adapter parameter, attention three times.

    The counting rule of the trainer's MFU (design, section 7).
    """
    require_count(tokens=tokens, adapter_parameters=adapter_parameters)
    require_positive(matmul_parameters=matmul_parameters)
    return tokens * (4 * matmul_parameters + 6 * adapter_parameters) + 3 * attention_forward
