"""Tests of trainer.plan.compaction: lecture 12, section 5 and exercise 3."""

import pytest

from trainer.plan.compaction import appended_rows, compacted_rows, rows_cost

REPAIR_RUN = {"prompt": 2_000, "turns": 4, "action": 200, "observation": 1_500}
LLAMA_8B = {"matmul_parameters": 8e9, "layers": 32, "attention_width": 4_096}


def test_the_harness_that_appends_makes_one_row() -> None:
    cost = rows_cost(appended_rows(**REPAIR_RUN), **LLAMA_8B)
    assert (cost.row_tokens, cost.positions, cost.pairs) == ((8_800,), 8_800, 38_724_400)
    assert cost.flops / 1e14 == pytest.approx(1.61, abs=0.005)


def test_the_harness_that_compacts_makes_two_rows_fewer_pairs_and_more_work() -> None:
    cost = rows_cost(compacted_rows(**REPAIR_RUN, every_turns=2, summary=300), **LLAMA_8B)
    assert (cost.row_tokens, cost.positions, cost.pairs) == ((5_400, 5_700), 11_100, 30_830_550)
    assert cost.flops / 1e14 == pytest.approx(1.94, abs=0.005)
    assert pytest.approx(1.26, abs=0.005) == 11_100 / 8_800


def test_a_last_row_may_be_shorter() -> None:
    assert compacted_rows(prompt=10, turns=5, action=1, observation=1, every_turns=2, summary=3) == (14, 17, 15)


def test_compacting_after_more_turns_than_there_are_is_appending() -> None:
    assert compacted_rows(**REPAIR_RUN, every_turns=9, summary=300) == appended_rows(**REPAIR_RUN)
