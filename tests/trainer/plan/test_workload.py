"""Tests of trainer.plan.workload: the lecture's repair run, and what spread, limit and compaction do to it."""

import statistics

import pytest

from trainer.plan.flops import causal_pairs
from trainer.plan.prefill import cached_group_prefill_tokens, uncached_prefill_tokens
from trainer.plan.workload import Compaction, assumed_workload

REPAIR_RUN = {"prompt": 2_000, "turns": 4, "action": 200, "observation": 1_500}


def test_without_a_spread_it_is_the_lecture_s_repair_run() -> None:
    workload = assumed_workload(tasks=1, group_size=8, length_spread=0)
    assert workload.submitted_tokens == 8 * uncached_prefill_tokens(**REPAIR_RUN) == 145_600
    assert workload.computed_prefill_tokens == cached_group_prefill_tokens(rollouts=8, **REPAIR_RUN) == 38_000
    assert (workload.sharing.all_tokens, workload.sharing.tree_tokens) == (70_400, 56_400)
    assert workload.rows == [8_800] * 8
    assert workload.tree_pairs == 8 * causal_pairs(8_800) - 7 * causal_pairs(2_000)
    assert workload.sampled_tokens == 8 * 800


def test_a_spread_keeps_the_mean_action_and_repeats_with_its_seed() -> None:
    workload = assumed_workload(tasks=1_000, group_size=4, length_spread=0.5)
    lengths = [rollout.sampled / 4 for rollout in workload.rollouts]
    assert statistics.fmean(lengths) == pytest.approx(200, rel=0.03)
    assert statistics.stdev(lengths) / statistics.fmean(lengths) == pytest.approx(0.5, rel=0.08)
    assert workload == assumed_workload(tasks=1_000, group_size=4, length_spread=0.5)
    assert workload != assumed_workload(tasks=1_000, group_size=4, length_spread=0.5, seed=1)


def test_a_rollout_ends_with_the_last_turn_that_fits() -> None:
    workload = assumed_workload(tasks=1, group_size=1, length_spread=0, max_tokens=5_500)
    assert workload.rows == [2_000 + 2 * 1_700]
    with pytest.raises(ValueError, match="take 3700 tokens, more than max_tokens 3000"):
        assumed_workload(tasks=1, group_size=1, length_spread=0, max_tokens=3_000)


def test_compaction_makes_rows_that_repeat_the_prompt() -> None:
    workload = assumed_workload(tasks=2, group_size=1, length_spread=0, compaction=Compaction(2, 300))
    assert workload.rows == [5_400, 5_700, 5_400, 5_700]
    assert workload.sharing.tree_tokens == 2 * (11_100 - 2_000)
    first = workload.rollouts[0]
    assert [turn.prompt for turn in first.turns] == [2_000, 3_700, 2_300, 4_000]
    assert [turn.fresh for turn in first.turns] == [2_000, 1_500, 300, 1_500]


def test_pairs_of_fresh_tokens_count_what_each_attends_to() -> None:
    """2 tokens see 1 and 2; then 1 fresh token at the end of 5 sees 5."""
    workload = assumed_workload(tasks=1, group_size=1, prompt=2, turns=2, action=2, observation=1, length_spread=0)
    assert workload.rollouts[0].fresh_pairs == 1 + 2 + 5
    assert workload.mean_decode_context == ((2 + 1) * 2 + (5 + 1) * 2) / 4


def test_an_empty_step_is_refused() -> None:
    with pytest.raises(ValueError, match="tasks is 0"):
        assumed_workload(tasks=0, group_size=8)
