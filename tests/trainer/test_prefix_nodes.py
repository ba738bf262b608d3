"""Packings cut at their forks, worked by hand."""

from tests.trainer.row_by_row import row
from trainer.packing import pack
from trainer.prefix_nodes import Node, prefix_nodes


def test_a_fork_in_mid_row_cuts_the_row_that_came_first() -> None:
    # Packed: 1 2 3 4 5 | 9 9 (after 1 2 3) | 9 8 8 (after 1 2 3 9).
    given = [
        row([1, 2, 3, 9, 9], [(4, 5)], "a"),
        row([1, 2, 3, 4, 5], [(4, 5)], "a"),
        row([1, 2, 3, 9, 8], [(4, 5)], "a"),
    ]
    assert pack(given).ids_T.tolist() == [1, 2, 3, 4, 5, 9, 8, 9]
    assert prefix_nodes(pack(given)) == [
        Node(0, 3, None, "a"),
        Node(3, 5, 0, "a"),
        Node(5, 6, 0, "a"),
        Node(6, 7, 2, "a"),
        Node(7, 8, 2, "a"),
    ]


def test_a_row_inside_another_is_its_parent_and_twins_are_one_node() -> None:
    given = [row([1, 2, 3], [(1, 3)], "a"), row([1, 2], [(1, 2)], "a"), row([1, 2, 3], [(2, 3)], "a")]
    assert prefix_nodes(pack(given)) == [Node(0, 2, None, "a"), Node(2, 3, 0, "a")]


def test_adapters_share_no_node() -> None:
    given = [row([1, 2, 3], [(1, 3)], "b"), row([1, 2, 3], [(1, 3)], "a"), row([1, 2, 3], [(1, 3)], None)]
    assert prefix_nodes(pack(given)) == [Node(0, 3, None, None), Node(3, 6, None, "a"), Node(6, 9, None, "b")]
