"""Tests of trainer.plan.memory: lecture 12, section 2 and exercise 1."""

import pytest

from trainer.plan.memory import (
    checkpointed_input_bytes,
    full_training_bytes,
    kv_bytes,
    kv_bytes_per_token,
    left_bytes,
    lora_training_bytes,
    rollouts_that_fit,
    weight_bytes,
)

GIB = 2**30
LLAMA_8B_TOKEN = kv_bytes_per_token(layers=32, kv_heads=8, head_width=128)


def test_one_token_of_llama_8b_takes_128_kib() -> None:
    assert LLAMA_8B_TOKEN == 131_072


def test_a_full_rollout_takes_4_gib_and_64_take_256() -> None:
    one = kv_bytes(tokens=32_768, bytes_per_token=LLAMA_8B_TOKEN)
    assert one == 4 * GIB
    assert 64 * one == 256 * GIB


def test_the_repair_run_takes_68_75_gib() -> None:
    assert 64 * kv_bytes(tokens=8_800, bytes_per_token=LLAMA_8B_TOKEN) == 68.75 * GIB


def test_49_rollouts_of_a_48_layer_model_fit_in_320_gb() -> None:
    per_token = kv_bytes_per_token(layers=48, kv_heads=8, head_width=128)
    assert per_token == 196_608
    rollout = kv_bytes(tokens=32_768, bytes_per_token=per_token)
    assert rollout == 6 * GIB
    assert rollouts_that_fit(cache_bytes=320e9, rollout_bytes=rollout) == 49


def test_what_the_repair_run_leaves_of_eight_80_gb_devices() -> None:
    """128 GB of trainer state, 16 GB of inference weights and the full or the realised cache of 640 GB."""
    fixed = {"state": full_training_bytes(8_000_000_000), "engine_weights": weight_bytes(8_000_000_000)}
    assert fixed == {"state": 128_000_000_000, "engine_weights": 16_000_000_000}
    assert left_bytes(640e9, **fixed, cache=256 * GIB) / 1e9 == pytest.approx(221.1, abs=0.05)
    assert left_bytes(640e9, **fixed, cache=68.75 * GIB) / 1e9 == pytest.approx(422.2, abs=0.05)


def test_left_is_negative_when_it_does_not_fit() -> None:
    assert left_bytes(10.0, state=16.0) == -6.0


def test_a_frozen_base_has_no_gradient_and_no_optimizer() -> None:
    assert lora_training_bytes(1000, adapter_parameters=10) == 2 * 1000 + 16 * 10


def test_checkpointing_keeps_one_input_per_layer() -> None:
    assert checkpointed_input_bytes(tokens=40_000, layers=32, hidden=4096) == 2 * 40_000 * 32 * 4096


def test_a_layer_count_of_zero_is_named() -> None:
    with pytest.raises(ValueError, match="layers is 0, expected a whole number of at least 1"):
        kv_bytes_per_token(layers=0, kv_heads=8, head_width=128)


def test_an_infinite_cache_is_refused() -> None:
    with pytest.raises(ValueError, match="cache_bytes is inf"):
        rollouts_that_fit(cache_bytes=float("inf"), rollout_bytes=1.0)
