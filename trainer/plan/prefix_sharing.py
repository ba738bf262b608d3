"""Prefix sharing in training: the ideal work ratio and the duplicated share, from lengths or from token ids."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainer.plan.quantity import require_count, require_whole

_ID_BYTES = 4


class Sharing(NamedTuple):
    """Tokens of rows counted one by one, and with every shared prefix once."""

    all_tokens: int
    tree_tokens: int

    @property
    def work_ratio(self) -> float:
        """How many times fewer positions are computed: all tokens over tree tokens."""
        return self.all_tokens / self.tree_tokens

    @property
    def duplicated_share(self) -> float:
        """Share of the rows' tokens that repeats an earlier row's prefix."""
        return 1 - self.tree_tokens / self.all_tokens


def group_sharing(*, rollouts: int, prompt: int, response: int) -> Sharing:
    """Rollouts of one prompt, shared once: n(p + r) against p + n r. Lecture 12, section 3 (ZoRRo)."""
    require_count(rollouts=rollouts, prompt_tokens=prompt)
    require_whole(response_tokens=response)
    return Sharing(all_tokens=rollouts * (prompt + response), tree_tokens=prompt + rollouts * response)


class PrefixTree:
    """Rows of token ids, asked one after another how much of each is already there.

    Rows are kept as big-endian bytes in sorted order: byte order is then token order, and the longest common
    prefix with any row is the one with a neighbour. A row that a later one extends gives way to it.
    """

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self.tokens = 0
        """Tokens of all rows with every shared prefix counted once."""
        self.pairs = 0
        """Query-key pairs of those tokens, each against everything before it in its row."""

    def shared_tokens(self, ids: Sequence[int] | NDArray[np.int32]) -> int:
        """Length of the longest prefix of `ids` that some row begins with."""
        row = _key(ids)
        at = bisect_left(self._rows, row)
        return max((_common_tokens(row, neighbour) for neighbour in self._rows[max(0, at - 1) : at + 1]), default=0)

    def add(self, ids: Sequence[int] | NDArray[np.int32]) -> int:
        """Takes a row in; returns how many of its tokens were already there."""
        row = _key(ids)
        shared = self.shared_tokens(ids)
        fresh = len(row) // _ID_BYTES - shared
        if not fresh:
            return shared
        self.tokens += fresh
        self.pairs += fresh * (2 * shared + fresh + 1) // 2
        at = bisect_left(self._rows, row)
        if at and row.startswith(self._rows[at - 1]):
            self._rows[at - 1] = row
        else:
            self._rows.insert(at, row)
        return shared

    def leaves(self) -> list[int]:
        """Lengths, in tokens, of the rows that no other row extends."""
        return [len(row) // _ID_BYTES for row in self._rows]


def _key(ids: Sequence[int] | NDArray[np.int32]) -> bytes:
    return np.asarray(ids, dtype=">u4").tobytes()


def _common_tokens(one: bytes, other: bytes) -> int:
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length // _ID_BYTES
    first, second = np.frombuffer(one[:length], np.uint32), np.frombuffer(other[:length], np.uint32)
    return int(np.argmax(first != second))
