"""A packing cut at its forks: nodes of a tree whose tokens all have the same tokens before and after them."""

from bisect import bisect_right
from typing import NamedTuple

from trainer.packing import Packed


class Node(NamedTuple):
    """Tokens `start` to `end` of a packing; what they follow is the whole path of their parent."""

    start: int
    end: int
    parent: int | None
    """Index of the node before it in its rows; None at a root."""
    adapter: str | None


def prefix_nodes(packed: Packed) -> list[Node]:
    """In the order of the packing: a node comes after its parent, and all that follows a node lies together."""
    before = {branch.start: None if branch.context is None else int(branch.context[-1]) for branch in packed.branches}
    forks = {last + 1 for last in before.values() if last is not None}
    starts = sorted((set(before) | forks) - {len(packed.ids_T)})
    ends = [*starts[1:], len(packed.ids_T)]
    slice_starts = [piece.start for piece in packed.slices]
    nodes: list[Node] = []
    for start, end in zip(starts, ends, strict=True):
        last = before[start] if start in before else start - 1
        parent = None if last is None else bisect_right(starts, last) - 1
        nodes.append(Node(start, end, parent, packed.slices[bisect_right(slice_starts, start) - 1].adapter))
    return nodes
