"""A prefix tree of token sequences, counted exactly in a few bytes per block of it."""

from typing import NamedTuple

import numpy as np

from checks.measures.prefix_blocks import BLOCK, PrefixBlocks
from checks.ragged import Array

_EACH_POSITION = np.random.default_rng(20_261).integers(0, 2**64, (BLOCK,), np.uint64) | np.uint64(1)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_HASHED_AT_ONCE = 2_048
"""Blocks whose hashing stays in a core's cache."""


class TreeSize(NamedTuple):
    """Of the sequences of one key."""

    key: int
    sequences: int
    tokens: int
    """Of all sequences."""
    tree_tokens: int
    """Nodes of their prefix tree: different prefixes."""


class PrefixTree:
    """Counts the different prefixes of all sequences added, for each key apart.

    A sequence is cut into blocks. A block is known by a 64-bit hash of everything up to its end, and kept once, with
    the hash of everything before it: its parent. The tokens of the tree are then, parent by parent, those of the
    small tree of the blocks that follow it, counted from the tokens themselves. Two different prefixes with one hash
    would be counted as one: for a billion different tokens that has a chance of 1 in 100,000.
    """

    def __init__(self, blocks: PrefixBlocks | None = None) -> None:
        self._blocks = blocks or PrefixBlocks()
        self._sequences: dict[int, int] = {}
        self._tokens: dict[int, int] = {}

    def add(self, padded: Array, lengths: Array, keys: Array) -> None:
        """Sequences as rows of blocks (uint32, one row after the other, zeros after its end), and a key for each."""
        counts = blocks_of(lengths)
        self._count(lengths, keys)
        kept = lengths > 0
        lengths, keys, counts = lengths[kept], keys[kept], counts[kept]
        if not len(lengths):
            return
        ends = np.cumsum(counts)
        sizes = np.full(len(padded), BLOCK, np.uint8)
        sizes[ends - 1] = lengths - (counts - 1) * BLOCK
        hashes = _chained(_block_hashes(padded, sizes), keys, counts)
        parents = np.empty_like(hashes)
        parents[1:] = hashes[:-1]
        parents[ends - counts] = _mixed(keys.astype(np.uint64) + _ODD)
        self._blocks.add(padded, hashes, parents, sizes, np.repeat(keys, counts))

    def sizes(self) -> list[TreeSize]:
        """What was counted, by key."""
        trees = self._blocks.tree_tokens()
        return [TreeSize(key, self._sequences[key], self._tokens[key], trees.get(key, 0)) for key in self._sequences]

    def _count(self, lengths: Array, keys: Array) -> None:
        for key in np.unique(keys).tolist():
            of_key = lengths[keys == key]
            self._sequences[key] = self._sequences.get(key, 0) + len(of_key)
            self._tokens[key] = self._tokens.get(key, 0) + int(of_key.sum())


def blocks_of(lengths: Array) -> Array:
    """Blocks that sequences of these lengths fill, the last of each in part."""
    return -(-lengths // BLOCK)


def _block_hashes(padded: Array, sizes: Array) -> Array:
    hashes = np.empty(len(padded), np.uint64)
    for start in range(0, len(padded), _HASHED_AT_ONCE):
        part = padded[start : start + _HASHED_AT_ONCE] * _EACH_POSITION
        part ^= part >> np.uint64(32)
        hashes[start : start + _HASHED_AT_ONCE] = part.sum(axis=1, dtype=np.uint64)
    return hashes + sizes.astype(np.uint64) * _ODD


def _chained(of_blocks: Array, keys: Array, counts: Array) -> Array:
    """For each block the hash of everything up to its end."""
    starts = np.cumsum(counts) - counts
    position = np.arange(len(of_blocks), dtype=np.int64) - np.repeat(starts, counts)
    summed = np.cumsum(_mixed(of_blocks ^ _mixed(position.astype(np.uint64) * _ODD)), dtype=np.uint64)
    before = np.where(starts > 0, summed[starts - 1], np.uint64(0))
    return _mixed(summed - np.repeat(before, counts) + np.repeat(_mixed(keys.astype(np.uint64)), counts))


def _mixed(values: Array) -> Array:
    """A bijection of 64-bit integers that spreads every bit (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * _MIX[0]
    values = (values ^ (values >> np.uint64(27))) * _MIX[1]
    return values ^ (values >> np.uint64(31))
