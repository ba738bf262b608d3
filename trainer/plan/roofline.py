"""Arithmetic intensity of prefill and decode against a device's ridge point, and how long a decode pass takes."""

from typing import NamedTuple

from trainer.plan.devices import Device
from trainer.plan.flops import attention_flops_per_pair
from trainer.plan.memory import BF16_BYTES
from trainer.plan.model_shape import ModelShape
from trainer.plan.quantity import require_count, require_positive, require_share


class Work(NamedTuple):
    """Operations and bytes of one model pass."""

    flops: float
    bytes_read: float

    @property
    def flops_per_byte(self) -> float:
        """Arithmetic intensity."""
        return self.flops / self.bytes_read


def ridge_flops_per_byte(device: Device) -> float:
    """Intensity below which memory bandwidth sets the pace. Lecture 12, section 1."""
    return device.peak_flops_per_s / device.bandwidth_bytes_per_s


def weights_only_intensity(tokens_in_pass: float) -> float:
    """Operations per byte when only bf16 weights are read: 2 N b / 2 N, so the tokens in the pass. Lecture 12, 1."""
    require_positive(tokens_in_pass=tokens_in_pass)
    return 2 * tokens_in_pass / BF16_BYTES


def pass_weight_bytes(shape: ModelShape, *, tokens_in_pass: float) -> float:
    """Weights one pass reads: all that every token uses, and the experts that these tokens are expected to touch."""
    require_positive(tokens_in_pass=tokens_in_pass)
    own_experts = shape.moe_layers * shape.experts_per_token * shape.expert_parameters
    touched = shape.moe_layers * shape.distinct_experts(tokens_in_pass) * shape.expert_parameters
    return BF16_BYTES * (shape.matmul_parameters - own_experts + touched)


def decode_work(
    shape: ModelShape, *, sequences: float, context_tokens: float, kv_bytes_per_token: int, positions: int = 1
) -> Work:
    """One decode pass: `positions` tokens of each sequence (1 + drafts), with its whole cache read once.

    Lecture 12, section 1, with the cache and the attention it leaves out.
    """
    require_positive(sequences=sequences, context_tokens=context_tokens)
    require_count(kv_bytes_per_token=kv_bytes_per_token, positions=positions)
    tokens = sequences * positions
    pair_flops = attention_flops_per_pair(layers=shape.layers, attention_width=shape.attention_width)
    return Work(
        flops=tokens * (2 * shape.matmul_parameters + pair_flops * context_tokens),
        bytes_read=pass_weight_bytes(shape, tokens_in_pass=tokens) + sequences * context_tokens * kv_bytes_per_token,
    )


def pass_seconds(work: Work, device: Device, *, devices: int, mfu: float, bandwidth_share: float) -> float:
    """Time of a pass spread evenly over `devices`: the slower of arithmetic and memory."""
    require_count(devices=devices)
    require_positive(mfu=mfu, bandwidth_share=bandwidth_share)
    require_share(mfu=mfu, bandwidth_share=bandwidth_share)
    arithmetic_s = work.flops / (devices * device.peak_flops_per_s * mfu)
    memory_s = work.bytes_read / (devices * device.bandwidth_bytes_per_s * bandwidth_share)
    return max(arithmetic_s, memory_s)
