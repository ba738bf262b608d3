"""The prefix cache: keys and values of token prefixes, by namespace, each token once."""

from collections.abc import Sequence as Ids

import torch

MAX_RUN_TOKENS = 512
"""Longest run of a node, so that forgetting its end never copies much."""


class Node:
    """A run of tokens that follows its parent's."""

    def __init__(self, ids: list[int], piece: torch.Tensor, parent: "Node | None") -> None:
        self.ids = ids
        self.piece = piece
        """[key or value, layer, head, token, width] of these tokens."""
        self.parent = parent
        self.children: dict[int, Node] = {}
        """By first token."""
        self.used = 0
        """Turn of the tree's clock at the last use."""


class PrefixTree:
    """Prefixes of a namespace share their beginnings; the least recently used ends go first."""

    def __init__(self) -> None:
        self._roots: dict[int, Node] = {}
        self._clock = 0
        self.tokens = 0
        """Tokens held, over all namespaces."""

    def match(self, namespace: int, ids: Ids[int], limit: int) -> list[torch.Tensor]:
        """Pieces that together cover the longest known prefix of `ids`, at most `limit` tokens of it."""
        self._clock += 1
        pieces: list[torch.Tensor] = []
        node, at = self._roots.get(namespace), 0
        while node is not None and at < limit:
            child = node.children.get(ids[at])
            if child is None:
                break
            shared = min(shared_prefix(child.ids, ids[at : at + len(child.ids)]), limit - at)
            child.used = self._clock
            pieces.append(child.piece[:, :, :, :shared])
            at += shared
            node = child if shared == len(child.ids) else None
        return pieces

    def insert(self, namespace: int, ids: Ids[int], kept: torch.Tensor) -> None:
        """Remembers a prefix; `kept` holds the keys and values of exactly these ids, and is copied."""
        self._clock += 1
        node, at = self._roots.setdefault(namespace, Node([], kept[:, :, :, :0], None)), 0
        while at < len(ids):
            child = node.children.get(ids[at])
            if child is None:
                end = min(len(ids), at + MAX_RUN_TOKENS)
                child = Node(list(ids[at:end]), kept[:, :, :, at:end].clone(), node)
                node.children[ids[at]] = child
                self.tokens += len(child.ids)
            shared = shared_prefix(child.ids, ids[at : at + len(child.ids)])
            if shared < len(child.ids) and at + shared < len(ids):
                child = _split(child, shared)
            child.used = self._clock
            node, at = child, at + shared

    def evict(self, tokens: int) -> None:
        """Forgets at least so many tokens, or everything."""
        goal = max(0, self.tokens - tokens)
        while self.tokens > goal:
            oldest = min(self._leaves(), key=lambda leaf: leaf.used)
            spare = self.tokens - goal
            if spare < len(oldest.ids):
                keep = len(oldest.ids) - spare
                oldest.ids, oldest.piece = oldest.ids[:keep], oldest.piece[:, :, :, :keep].clone()
                self.tokens -= spare
            else:
                self._remove(oldest)

    def drop(self, namespace: int) -> None:
        """Forgets a namespace: its adapter is gone, or its weights changed."""
        root = self._roots.pop(namespace, None)
        if root is not None:
            self.tokens -= sum(len(node.ids) for node in _below(root))

    def clear(self) -> None:
        """Forgets everything."""
        self._roots.clear()
        self.tokens = 0

    def _leaves(self) -> list[Node]:
        return [node for root in self._roots.values() for node in _below(root) if not node.children]

    def _remove(self, leaf: Node) -> None:
        assert leaf.parent is not None
        del leaf.parent.children[leaf.ids[0]]
        self.tokens -= len(leaf.ids)


def shared_prefix(left: Ids[int], right: Ids[int]) -> int:
    """Tokens at the beginning that both lists have in common."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))


def _split(node: Node, at: int) -> Node:
    assert node.parent is not None
    head = Node(node.ids[:at], node.piece[:, :, :, :at].clone(), node.parent)
    head.used = node.used
    node.parent.children[head.ids[0]] = head
    node.ids, node.piece, node.parent = node.ids[at:], node.piece[:, :, :, at:].clone(), head
    head.children[node.ids[0]] = node
    return head


def _below(root: Node) -> list[Node]:
    found: list[Node] = []
    open_nodes = list(root.children.values())
    while open_nodes:
        node = open_nodes.pop()
        found.append(node)
        open_nodes.extend(node.children.values())
    return found
