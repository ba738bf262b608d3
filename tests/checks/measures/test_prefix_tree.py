"""The prefix tree's size is that of a tree built token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.measures.prefix_blocks import BLOCK, PrefixBlocks
from checks.measures.prefix_tree import PrefixTree, TreeSize, blocks_of

Keyed = tuple[int, list[int]]


def add(tree: PrefixTree, sequences: list[Keyed]) -> None:
    """The sequences as the tree takes them."""
    lengths = np.array([len(ids) for _, ids in sequences], np.int64)
    padded = np.zeros((int(blocks_of(lengths).sum()), BLOCK), np.uint32)
    start = 0
    for _, ids in sequences:
        padded.reshape(-1)[start : start + len(ids)] = np.array(ids, np.int64).astype(np.uint32)
        start += int(blocks_of(np.array([len(ids)]))[0]) * BLOCK
    tree.add(padded, lengths, np.array([key for key, _ in sequences], np.int32))


def brute_force(sequences: list[Keyed]) -> list[TreeSize]:
    """A tree of dictionaries, and how many there are."""
    sizes: list[TreeSize] = []
    for key in dict.fromkeys(key for key, _ in sequences):
        of_key = [ids for its, ids in sequences if its == key]
        root: dict[int, dict] = {}
        nodes = 0
        for ids in of_key:
            node = root
            for token in ids:
                nodes += token not in node
                node = node.setdefault(token, {})
        sizes.append(TreeSize(key, len(of_key), sum(map(len, of_key)), nodes))
    return sorted(sizes)


@st.composite
def related(draw: st.DrawFn) -> list[Keyed]:
    """Sequences of few different tokens that continue, repeat and leave each other at any place."""
    made: list[Keyed] = []
    for _ in range(draw(st.integers(1, 14))):
        base: list[int] = []
        if made and draw(st.booleans()):
            base = draw(st.sampled_from(made))[1]
            base = base[: draw(st.integers(0, len(base)))] if draw(st.booleans()) else base
        token = st.sampled_from([0, 1, 2, 151_643, 2**31 - 1, -1])
        tail = draw(st.lists(token, max_size=5)) + [draw(token)] * draw(st.integers(0, 2 * BLOCK + 3))
        made.append((draw(st.integers(0, 1)), base + tail))
    return made


@given(related(), st.integers(1, 5), st.sampled_from([{}, {"in_memory": 1, "counted_at_once": 2}]))
@settings(max_examples=120, deadline=None)
def test_it_counts_what_a_tree_of_tokens_holds(sequences: list[Keyed], at_once: int, limits: dict[str, int]):
    tree = PrefixTree(PrefixBlocks(**limits))
    for start in range(0, len(sequences), at_once):
        add(tree, sequences[start : start + at_once])
    assert sorted(tree.sizes()) == brute_force(sequences)
    assert sorted(tree.sizes()) == brute_force(sequences), "asking twice gives the same"


@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_a_sequence_and_itself_are_one(length: int):
    tree = PrefixTree()
    add(tree, [(0, list(range(length)))] * 2)
    assert tree.sizes() == [TreeSize(0, 2, 2 * length, length)]


def test_zeros_at_the_end_are_tokens():
    tree = PrefixTree()
    add(tree, [(0, [5]), (0, [5, 0]), (0, [5, 0, 1]), (0, [5, 0, 0])])
    assert tree.sizes() == [TreeSize(0, 4, 9, 4)]


def test_the_same_block_after_different_beginnings_is_two():
    first, second, tail = [1] * BLOCK, [2] * BLOCK, [3] * BLOCK
    tree = PrefixTree()
    add(tree, [(0, first + tail), (0, second + tail)])
    assert tree.sizes() == [TreeSize(0, 2, 4 * BLOCK, 4 * BLOCK)]


def test_blocks_in_another_order_are_another_sequence():
    a, b = [1] * BLOCK, [2] * BLOCK
    tree = PrefixTree()
    add(tree, [(0, a + b), (0, b + a)])
    assert tree.sizes() == [TreeSize(0, 2, 4 * BLOCK, 4 * BLOCK)]


def test_nothing_and_empty_sequences():
    tree = PrefixTree()
    assert tree.sizes() == []
    add(tree, [(3, []), (3, [])])
    assert tree.sizes() == [TreeSize(3, 2, 0, 0)]


def test_many_sequences_that_part_at_one_place():
    rng = np.random.default_rng(1)
    tails = rng.integers(0, 1_000, (3_000, 7))
    tree = PrefixTree(PrefixBlocks(counted_at_once=100))
    add(tree, [(0, [9, 9, 9, *tail]) for tail in tails.tolist()])
    different = sum(len(np.unique(tails[:, :depth], axis=0)) for depth in range(1, 8))
    assert tree.sizes() == [TreeSize(0, 3_000, 30_000, 3 + different)]
