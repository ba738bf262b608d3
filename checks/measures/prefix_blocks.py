"""The different blocks of a prefix tree: their hashes in memory, their tokens in memory or in a temporary file."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# (NumPy arrays of any element type)

import os
import tempfile
import weakref
from typing import IO

import numpy as np

from checks.ragged import Array
from collector.errors import UserError

BLOCK = 64
"""Tokens of a block."""
_COLUMNS = 8


class PrefixBlocks:
    """Keeps each block once, with its parent; counts the tokens of the tree they make."""

    def __init__(self, *, in_memory: int = 2**19, counted_at_once: int = 2**15) -> None:
        """`in_memory` blocks (128 MiB of them) are held before a file takes them."""
        self._counted_at_once = counted_at_once
        self._known = _SortedRuns()
        self._parents: list[Array] = []
        self._sizes: list[Array] = []
        self._keys: list[Array] = []
        self._tokens = _TokenStore(in_memory)

    def add(self, tokens: Array, hashes: Array, parents: Array, sizes: Array, keys: Array) -> None:
        """Takes the blocks in that were not seen before."""
        different, first = np.unique(hashes, return_index=True)
        unseen = ~self._known.holds(different)
        self._known.add(different[unseen])
        new = np.sort(first[unseen])
        self._parents.append(parents[new])
        self._sizes.append(sizes[new])
        self._keys.append(keys[new])
        self._tokens.append(tokens[new])

    def tree_tokens(self) -> dict[int, int]:
        """Nodes of the tree, by key."""
        if not self._parents:
            return {}
        parents, sizes, keys = (np.concatenate(each) for each in (self._parents, self._sizes, self._keys))
        self._parents, self._sizes, self._keys = [parents], [sizes], [keys]
        return {key: self._of_key(np.flatnonzero(keys == key), parents, sizes) for key in np.unique(keys).tolist()}

    def _of_key(self, numbers: Array, parents: Array, sizes: Array) -> int:
        """Nodes of one key: the tokens of every block, less what siblings have in common."""
        order: Array = numbers[np.argsort(parents[numbers], kind="stable")]
        starts = np.flatnonzero(np.concatenate([[True], np.diff(parents[order]) != 0]))
        lengths = np.diff(np.concatenate([starts, [len(order)]]))
        total = int(sizes[order[starts[lengths == 1]]].sum(dtype=np.int64))
        pairs: Array = starts[lengths == 2]
        for at in range(0, len(pairs), self._counted_at_once):
            part = pairs[at : at + self._counted_at_once]
            total += self._of_pairs(order[part], order[part + 1], sizes)
        larger: Array = lengths > 2
        siblings: Array = order[np.repeat(larger, lengths)]
        families: Array = np.repeat(np.arange(int(larger.sum())), lengths[larger])
        for part in _whole_families(families, self._counted_at_once):
            total += self._of_families(siblings[part], families[part] - families[part][0], sizes)
        return total

    def _of_pairs(self, first: Array, second: Array, sizes: Array) -> int:
        """Nodes of many trees of two blocks each."""
        columns = slice(0, BLOCK)
        differs = self._tokens.take(first, columns) != self._tokens.take(second, columns)
        common = np.where(differs.any(axis=1), differs.argmax(axis=1), BLOCK)
        shared = np.minimum(common, np.minimum(sizes[first], sizes[second]))
        return int((sizes[first].astype(np.int64) + sizes[second] - shared).sum())

    def _of_families(self, numbers: Array, families: Array, sizes: Array) -> int:
        """Nodes of trees of more blocks, level by level; a block that has left all others is counted to its end."""
        nodes = 0
        left = sizes[numbers].astype(np.int64)
        first: Array = np.searchsorted(families, np.arange(families[-1] + 1))
        tokens = self._tokens.take(numbers, slice(0, _COLUMNS))
        for depth in range(BLOCK):
            if depth and depth % _COLUMNS == 0:
                tokens = self._tokens.take(numbers, slice(depth, depth + _COLUMNS))
            here: Array = tokens[:, depth % _COLUMNS]
            left -= 1
            if left.all() and (here == here[first][families]).all():
                nodes += len(first)
                continue
            places = families.astype(np.uint64) << np.uint64(32) | here.astype(np.uint64)
            different, families, counts = np.unique(places, return_inverse=True, return_counts=True)
            nodes += len(different)
            alone = counts[families] == 1
            nodes += int(left[alone].sum())
            more = ~alone & (left > 0)
            if not more.any():
                break
            numbers, left, tokens = numbers[more], left[more], tokens[more]
            _, first, families = np.unique(families[more], return_index=True, return_inverse=True)
        return nodes


def _whole_families(families: Array, at_once: int) -> list[slice]:
    """Pieces of bounded size that part no family, unless one alone is larger."""
    pieces: list[slice] = []
    start = 0
    while start < len(families):
        end = min(start + at_once, len(families))
        if end < len(families):
            cut = int(np.searchsorted(families, families[end], "left"))
            end = cut if cut > start else int(np.searchsorted(families, families[end], "right"))
        pieces.append(slice(start, end))
        start = end
    return pieces


class _SortedRuns:
    """A set of 64-bit numbers in a few sorted arrays, each at most half as long as the one before it."""

    def __init__(self) -> None:
        self._runs: list[Array] = []

    def holds(self, sorted_values: Array) -> Array:
        """Which of the values are in it."""
        found = np.zeros(len(sorted_values), np.bool_)
        for run in self._runs:
            at = np.searchsorted(run, sorted_values)
            found |= run[np.minimum(at, len(run) - 1)] == sorted_values
        return found

    def add(self, sorted_values: Array) -> None:
        """Takes in values that are not in it."""
        if not len(sorted_values):
            return
        self._runs.append(sorted_values)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")


class _TokenStore:
    """Blocks of tokens by number, from 0 in the order they came; many of them in a temporary file."""

    def __init__(self, in_memory: int) -> None:
        self._in_memory = in_memory
        self._parts: list[Array] = []
        self._held = 0
        self._file: IO[bytes] | None = None

    def append(self, tokens: Array) -> None:
        """Takes blocks in."""
        self._parts.append(np.ascontiguousarray(tokens))
        self._held += len(tokens)
        if self._held >= self._in_memory:
            self._spill()

    def take(self, numbers: Array, columns: slice) -> Array:
        """Some columns of blocks by number."""
        if self._file is None:
            self._parts = [np.concatenate(self._parts)] if len(self._parts) > 1 else self._parts
            return self._parts[0][numbers, columns]
        self._spill()
        self._file.flush()
        # Read one by one: pages of a mapped file would count as this process's memory, up to all of it.
        width, first = 4 * len(range(BLOCK)[columns]), 4 * range(BLOCK)[columns].start
        file = self._file.fileno()
        read = b"".join([os.pread(file, width, 4 * BLOCK * number + first) for number in numbers.tolist()])
        return np.frombuffer(read, np.uint32).reshape(len(numbers), -1)

    def _spill(self) -> None:
        parts, self._parts, self._held = self._parts, [], 0
        try:
            if self._file is None:
                # It has no name any more, and goes with this object.
                self._file = tempfile.TemporaryFile(prefix="roundhouse-prefix-")  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            for part in parts:
                self._file.write(part.data)
        except OSError as error:
            raise UserError(
                f"{tempfile.gettempdir()}: {error.strerror}, expected room for the different tokens of the log, "
                "4 bytes each; set TMPDIR to a larger disk or --ignore duplicate-prefix"
            ) from error
