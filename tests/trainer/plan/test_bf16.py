"""Tests of trainer.plan.bf16: lecture 12, section 4 and exercise 4, and torch's own cast."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.plan.bf16 import (
    bf16_bits,
    bf16_round,
    bf16_round_float32,
    bf16_spacing,
    changing_share,
    steps_stored_in_bf16,
    steps_until_copy_changes,
)


def test_small_increments_round_back() -> None:
    assert bf16_round(1.0 + 1e-3) == 1.0
    value = bf16_round(0.0177)
    assert bf16_round(value + 3e-6) == value


def test_the_lecture_s_weights_take_21_and_2_steps() -> None:
    assert steps_until_copy_changes(0.0177, step=3e-6) == 21
    assert steps_until_copy_changes(0.0031, step=3e-6) == 2


@settings(deadline=None)
@given(st.floats(1e-4, 1), st.floats(1e-7, 1e-3), st.booleans())
def test_steps_are_those_of_a_loop(master: float, size: float, down: bool) -> None:
    step = -size if down else size
    copy, steps = bf16_round(master), 0
    while bf16_round(master + steps * step) == copy and steps < 300:
        steps += 1
    if steps < 300:
        assert steps_until_copy_changes(master, step=step) == steps


def test_grid_spacing_at_the_lecture_s_weights() -> None:
    assert bf16_spacing(0.0031) == 2.0**-16
    assert bf16_spacing(0.0177) == 2.0**-13
    assert bf16_round(0.0031) == 203 * 2.0**-16
    assert bf16_spacing(1.0) == 2.0**-7


def test_shares_of_steps_that_change_a_copy() -> None:
    assert changing_share(0.0031, step=3e-6) == pytest.approx(0.197, abs=0.0005)
    assert changing_share(0.0177, step=3e-6) == pytest.approx(0.025, abs=0.0005)
    assert changing_share(0.0177, step=1.0) == 1.0


def test_stored_in_bf16_alone_neither_weight_moves() -> None:
    assert steps_stored_in_bf16(0.0031, step=3e-6) is None
    assert steps_stored_in_bf16(0.0177, step=3e-6) is None
    assert steps_stored_in_bf16(0.0177, step=1e-3) == 1


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False))
def test_rounding_agrees_with_torch(value: float) -> None:
    theirs = torch.tensor(value, dtype=torch.float32).to(torch.bfloat16)
    assert bf16_round(value) == theirs.item()
    assert bf16_bits(value) == int(theirs.view(torch.uint16).item())


def test_every_float32_bit_pattern_of_a_sample_is_cast_as_torch_casts_it() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32)
    edges = np.array([0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x00000001, 0x80000000, 0x7F800000], np.uint32)
    values = np.concatenate((bits, edges)).view(np.float32)
    theirs = torch.from_numpy(values.copy()).to(torch.bfloat16).view(torch.uint16).numpy()
    ours = bf16_round_float32(values)
    finite = ~np.isnan(values)
    np.testing.assert_array_equal(ours[finite], theirs[finite])
    assert torch.from_numpy(ours[~finite].copy()).view(torch.bfloat16).isnan().all()


def test_a_zero_step_is_refused() -> None:
    with pytest.raises(ValueError, match="step is 0"):
        steps_until_copy_changes(0.1, step=0)
