"""Tests of trainer.plan.flops: lecture 12, section 3 and exercise 3."""

import pytest

from trainer.plan.flops import (
    attention_flops_per_pair,
    attention_overtakes_at_tokens,
    causal_pairs,
    forward_flops,
    full_training_flops,
    lora_training_flops,
    rows_forward_flops,
)

SIZES = {"layers": 32, "attention_width": 4_096}


def test_pairs_of_the_repair_run() -> None:
    assert causal_pairs(8_800) == 38_724_400
    assert causal_pairs(5_400) + causal_pairs(5_700) == 30_830_550


def test_a_pair_costs_524_288_operations_in_llama_8b() -> None:
    assert attention_flops_per_pair(**SIZES) == 524_288


def test_flops_of_one_long_row_and_of_two_shorter_ones() -> None:
    one = rows_forward_flops([8_800], matmul_parameters=8e9, **SIZES)
    two = rows_forward_flops([5_400, 5_700], matmul_parameters=8e9, **SIZES)
    assert one == 8_800 * 1.6e10 + 38_724_400 * 524_288
    assert one / 1e14 == pytest.approx(1.61, abs=0.005)
    assert two / 1e14 == pytest.approx(1.94, abs=0.005)
    assert 38_724_400 * 524_288 / one == pytest.approx(0.126, abs=0.0005)
    assert 30_830_550 * 524_288 / two == pytest.approx(0.083, abs=0.0005)


def test_attention_overtakes_at_61_000_tokens() -> None:
    length = attention_overtakes_at_tokens(matmul_parameters=8e9, **SIZES)
    assert round(length, -3) == 61_000
    assert 524_288 * (length + 1) / 2 == pytest.approx(1.6e10)


def test_a_training_step_costs_three_forward_passes() -> None:
    forward = forward_flops(tokens=10, pairs=55, matmul_parameters=7.0, layers=1, attention_width=1)
    assert forward == 2 * 7 * 10 + 4 * 55
    assert full_training_flops(forward) == 3 * forward


def test_lora_skips_the_gradients_of_frozen_weights() -> None:
    assert (
        lora_training_flops(tokens=10, attention_forward=220.0, matmul_parameters=1000.0, adapter_parameters=20)
        == 10 * (4 * 1000 + 6 * 20) + 3 * 220
    )


def test_an_empty_row_is_refused() -> None:
    with pytest.raises(ValueError, match="tokens is 0"):
        causal_pairs(0)
