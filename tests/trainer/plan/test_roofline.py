"""Tests of trainer.plan.roofline: lecture 12, section 1."""

import pytest

from trainer.plan.devices import DEVICES, Device
from trainer.plan.model_shape import shape_of
from trainer.plan.roofline import (
    Work,
    decode_work,
    pass_seconds,
    pass_weight_bytes,
    ridge_flops_per_byte,
    weights_only_intensity,
)

DENSE = shape_of(
    {
        "model_type": "llama",
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "vocab_size": 32,
    }
)
MOE = shape_of(
    {
        "model_type": "mixtral",
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "vocab_size": 32,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    }
)
TOY = Device(
    name="toy",
    title="toy",
    peak_flops_per_s=1000.0,
    memory_bytes=1.0,
    bandwidth_bytes_per_s=10.0,
    source="invented",
    as_of="2026-01",
)


def test_the_ridge_point_of_an_h100_is_295() -> None:
    assert round(ridge_flops_per_byte(DEVICES["h100"])) == 295


def test_intensity_without_a_cache_is_the_tokens_in_the_pass() -> None:
    assert weights_only_intensity(64) == 64


def test_decode_reads_every_weight_once_and_each_cache_once() -> None:
    work = decode_work(DENSE, sequences=5, context_tokens=100, kv_bytes_per_token=48)
    assert work.bytes_read == 2 * DENSE.matmul_parameters + 5 * 100 * 48
    assert work.flops == 5 * (2 * DENSE.matmul_parameters + 4 * 8 * 3 * 100)


def test_drafts_multiply_the_arithmetic_and_not_the_bytes() -> None:
    one = decode_work(DENSE, sequences=5, context_tokens=100, kv_bytes_per_token=48)
    five = decode_work(DENSE, sequences=5, context_tokens=100, kv_bytes_per_token=48, positions=5)
    assert (five.flops, five.bytes_read) == (5 * one.flops, one.bytes_read)


def test_one_token_reads_its_own_experts_and_many_read_all() -> None:
    expert = 3 * 8 * 16
    rest = MOE.matmul_parameters - 3 * 2 * expert
    assert pass_weight_bytes(MOE, tokens_in_pass=1) == pytest.approx(2 * (rest + 3 * 2 * expert))
    assert pass_weight_bytes(MOE, tokens_in_pass=1_000) == pytest.approx(2 * (rest + 3 * 4 * expert))


def test_a_pass_takes_the_slower_of_arithmetic_and_memory() -> None:
    times = {"devices": 2, "mfu": 0.5, "bandwidth_share": 0.25}
    assert pass_seconds(Work(flops=3000, bytes_read=1), TOY, **times) == 3
    assert pass_seconds(Work(flops=1, bytes_read=30), TOY, **times) == 6
