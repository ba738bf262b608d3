"""The prefix cache: what matches, what shares, what is forgotten first."""

import random

import pytest
import torch

from trainer.engine.prefix_tree import PrefixTree


def kept(ids: list[int], salt: int = 0) -> torch.Tensor:
    """Stands for keys and values: each token's is a number of the whole prefix up to it."""
    values = [hash((salt, *ids[: index + 1])) % 65521 for index in range(len(ids))]
    return torch.tensor(values, dtype=torch.float32).view(1, 1, 1, -1, 1)


def matched(tree: PrefixTree, namespace: int, ids: list[int]) -> list[float]:
    pieces = tree.match(namespace, ids, len(ids))
    return torch.cat(pieces, dim=3).flatten().tolist() if pieces else []


def insert(tree: PrefixTree, namespace: int, ids: list[int]) -> None:
    tree.insert(namespace, ids, kept(ids, namespace))


def test_the_longest_common_prefix_matches() -> None:
    tree = PrefixTree()
    insert(tree, 0, [1, 2, 3, 4])
    assert matched(tree, 0, [1, 2, 3, 9]) == kept([1, 2, 3]).flatten().tolist()
    assert matched(tree, 0, [2, 3]) == []


def test_the_limit_cuts_a_match() -> None:
    tree = PrefixTree()
    insert(tree, 0, [1, 2, 3, 4])
    assert sum(piece.shape[3] for piece in tree.match(0, [1, 2, 3, 4], 3)) == 3


def test_branches_share_their_beginning() -> None:
    tree = PrefixTree()
    insert(tree, 0, [1, 2, 3, 4])
    insert(tree, 0, [1, 2, 5, 6, 7])
    assert tree.tokens == 7
    assert matched(tree, 0, [1, 2, 5, 6, 7, 8]) == kept([1, 2, 5, 6, 7]).flatten().tolist()
    assert matched(tree, 0, [1, 2, 3, 4]) == kept([1, 2, 3, 4]).flatten().tolist()


def test_a_prefix_of_something_known_adds_nothing() -> None:
    tree = PrefixTree()
    insert(tree, 0, [1, 2, 3, 4])
    insert(tree, 0, [1, 2])
    assert tree.tokens == 4


def test_namespaces_share_nothing() -> None:
    tree = PrefixTree()
    insert(tree, 1, [1, 2, 3])
    assert matched(tree, 0, [1, 2, 3]) == []
    insert(tree, 0, [1, 2, 3])
    tree.drop(1)
    assert tree.tokens == 3
    assert matched(tree, 1, [1, 2, 3]) == []
    assert matched(tree, 0, [1, 2, 3]) == kept([1, 2, 3], 0).flatten().tolist()


def test_the_least_recently_used_end_goes_first() -> None:
    tree = PrefixTree()
    insert(tree, 0, [1, 2, 3])
    insert(tree, 0, [1, 2, 4])
    insert(tree, 0, [9])
    tree.match(0, [1, 2, 3], 3)
    tree.evict(1)
    assert matched(tree, 0, [1, 2, 4]) == kept([1, 2]).flatten().tolist()
    assert matched(tree, 0, [9]) == kept([9]).flatten().tolist()
    tree.evict(99)
    assert tree.tokens == 0


@pytest.mark.parametrize("length", [100, 2000])
def test_a_long_end_is_forgotten_in_part(length: int) -> None:
    tree = PrefixTree()
    ids = list(range(length))
    insert(tree, 0, ids)
    assert matched(tree, 0, ids) == kept(ids).flatten().tolist()
    tree.evict(30)
    assert tree.tokens == length - 30
    assert matched(tree, 0, ids) == kept(ids[:-30]).flatten().tolist()


def test_random_use_agrees_with_a_plain_set_of_prefixes() -> None:
    dice = random.Random(3)
    tree, known = PrefixTree(), set[tuple[int, ...]]()
    for _ in range(400):
        ids = [dice.randrange(3) for _ in range(dice.randrange(1, 9))]
        insert(tree, 0, ids)
        known |= {tuple(ids[:end]) for end in range(1, len(ids) + 1)}
        query = [dice.randrange(3) for _ in range(10)]
        longest = max((end for end in range(11) if end == 0 or tuple(query[:end]) in known), default=0)
        assert matched(tree, 0, query) == kept(query[:longest]).flatten().tolist()
        assert tree.tokens == len(known)
