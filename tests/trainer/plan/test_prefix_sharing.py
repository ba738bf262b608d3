"""Tests of trainer.plan.prefix_sharing: lecture 12, section 3, and a trie built token by token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.plan.prefix_sharing import PrefixTree, group_sharing

ROWS = st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=8), min_size=1, max_size=12)


def test_the_repair_run_shares_little() -> None:
    sharing = group_sharing(rollouts=8, prompt=2_000, response=6_800)
    assert (sharing.all_tokens, sharing.tree_tokens) == (70_400, 56_400)
    assert sharing.work_ratio == pytest.approx(1.25, abs=0.005)


def test_long_prompts_share_much() -> None:
    """ZoRRo's 16 rollouts of 10.1K prompt and 800 response tokens."""
    sharing = group_sharing(rollouts=16, prompt=10_100, response=800)
    assert sharing.work_ratio == pytest.approx(7.6, abs=0.05)
    assert sharing.duplicated_share == pytest.approx(0.87, abs=0.005)
    assert sharing.duplicated_share == pytest.approx(15 * 10_100 / (16 * 10_900))


@settings(deadline=None)
@given(ROWS)
def test_the_tree_counts_what_a_trie_of_prefixes_counts(rows: list[list[int]]) -> None:
    tree, prefixes = PrefixTree(), set[tuple[int, ...]]()
    for row in rows:
        own = {tuple(row[: at + 1]) for at in range(len(row))}
        shared = len(own & prefixes)
        assert tree.shared_tokens(row) == shared
        assert tree.add(row) == shared
        prefixes |= own
    assert tree.tokens == len(prefixes)
    assert tree.pairs == sum(len(prefix) for prefix in prefixes)
    whole = {tuple(row) for row in rows}
    ends = [row for row in whole if not any(other != row and other[: len(row)] == row for other in whole)]
    assert sorted(tree.leaves()) == sorted(len(row) for row in ends)


def test_a_tree_of_the_repair_run_s_rows_agrees_with_the_formula() -> None:
    tree = PrefixTree()
    prompt = list(range(20))
    for rollout in range(8):
        tree.add(prompt + [1_000 + rollout] * 68)
    assert tree.tokens == group_sharing(rollouts=8, prompt=20, response=68).tree_tokens


def test_a_group_without_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt_tokens is 0"):
        group_sharing(rollouts=8, prompt=0, response=10)
