"""Tests of trainer.plan.pipeline: lecture 12, section 3."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.plan.pipeline import (
    bubble_of_busy,
    bubble_of_wall,
    microbatches,
    packed_microbatches,
    recompute_overhead,
)


def test_the_bubble_of_four_stages_and_sixteen_microbatches() -> None:
    assert bubble_of_busy(stages=4, microbatches=16) == 3 / 16
    assert bubble_of_wall(stages=4, microbatches=16) == 3 / 19


@settings(deadline=None)
@given(stages=st.integers(1, 8), batches=st.integers(1, 20))
def test_the_bubble_is_the_idle_time_of_a_stage_played_step_by_step(stages: int, batches: int) -> None:
    last_finish = (stages - 1) + batches
    idle = last_finish - batches
    assert bubble_of_wall(stages=stages, microbatches=batches) == pytest.approx(idle / last_finish)
    assert bubble_of_busy(stages=stages, microbatches=batches) == pytest.approx(idle / batches)


def test_64_trajectories_of_8_800_tokens_form_16_microbatches_of_40_000() -> None:
    assert microbatches(rows=64, row_tokens=8_800, budget_tokens=40_000) == 16
    assert packed_microbatches([8_800] * 64, budget_tokens=40_000) == 16


@settings(deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=50))
def test_packing_never_needs_fewer_than_the_tokens_do_nor_more_than_the_rows(rows: list[int]) -> None:
    count = packed_microbatches(rows, budget_tokens=100)
    assert -(-sum(rows) // 100) <= count <= len(rows)
    assert count <= 2 * sum(rows) / 100 + 1


def test_a_row_longer_than_the_budget_is_refused_not_cut() -> None:
    with pytest.raises(ValueError, match="a row has 9000 tokens and a microbatch holds 8192"):
        microbatches(rows=2, row_tokens=9_000, budget_tokens=8_192)
    with pytest.raises(ValueError, match="a row has 9000 tokens"):
        packed_microbatches([100, 9_000], budget_tokens=8_192)


def test_full_recomputation_costs_a_third() -> None:
    assert recompute_overhead(recomputed_forward_share=1) == pytest.approx(1 / 3)
    assert recompute_overhead(recomputed_forward_share=0) == 0
