"""Tests of trainer.plan.weight_sync: lecture 12, section 4."""

import numpy as np
import pytest

from trainer.plan.weight_sync import (
    copy_seconds,
    delta_bytes,
    entropy_bits_per_gap,
    entropy_bound_bytes,
    independent_changed_share,
    varint_bytes_per_gap,
)


def test_a_copy_of_two_terabytes_takes_160_seconds() -> None:
    assert copy_seconds(size_bytes=2e12, link_bytes_per_s=12.5e9) == 160
    assert copy_seconds(size_bytes=16e9, link_bytes_per_s=12.5e9) == pytest.approx(1.3, abs=0.05)


def test_a_gap_takes_1_28_bytes_at_one_percent() -> None:
    assert varint_bytes_per_gap(0.01) == pytest.approx(1.28, abs=0.005)
    assert varint_bytes_per_gap(0.01) == pytest.approx(1 + 0.99**127, abs=1e-9)


def test_a_delta_of_a_trillion_parameters_takes_32_8_gb_and_no_code_beats_30_1() -> None:
    assert delta_bytes(parameters=1e12, changed_share=0.01) / 1e9 == pytest.approx(32.8, abs=0.05)
    assert entropy_bound_bytes(parameters=1e12, changed_share=0.01) / 1e9 == pytest.approx(30.1, abs=0.05)
    assert entropy_bits_per_gap(0.01) == pytest.approx(8.08, abs=0.005)


def test_mean_gap_bytes_match_gaps_that_were_drawn() -> None:
    for share in (0.5, 0.01, 0.00005):
        gaps = np.random.default_rng(0).geometric(share, 200_000)
        drawn = (1 + (gaps >= 2**7) + (gaps >= 2**14) + (gaps >= 2**21)).mean()
        assert varint_bytes_per_gap(share) == pytest.approx(drawn, rel=0.01)


def test_every_value_changed_takes_one_byte_a_gap_and_has_no_entropy() -> None:
    assert varint_bytes_per_gap(1.0) == 1.0
    assert entropy_bits_per_gap(1.0) == 0.0


def test_independent_changes_of_one_percent_alter_7_7_percent_in_8_steps() -> None:
    assert independent_changed_share(0.01, steps=8) == pytest.approx(0.077, abs=0.0005)


def test_a_share_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="changed_share is 0"):
        varint_bytes_per_gap(0)
