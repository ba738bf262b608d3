"""Keys and values of one sequence."""

from typing import NamedTuple

import torch

BLOCK_TOKENS = 64
"""A buffer grows by this many tokens at a time."""


class KvLayout(NamedTuple):
    """Shape of what attention remembers of one token."""

    layers: int
    heads: int
    width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_per_token(self) -> int:
        """Memory of one token's keys and values."""
        return 2 * self.layers * self.heads * self.width * self.dtype.itemsize


def blocks(tokens: int) -> int:
    """Tokens rounded up to whole blocks: what a buffer for them occupies."""
    return -(-tokens // BLOCK_TOKENS) * BLOCK_TOKENS


class KvBuffer:
    """Keys and values of one sequence, contiguous: `kept` is [key or value, layer, head, token, width]."""

    def __init__(self, layout: KvLayout, capacity: int) -> None:
        self.layout = layout
        self.length = 0
        """Tokens whose keys and values are there."""
        self.kept = self._allocate(blocks(capacity))

    @property
    def capacity(self) -> int:
        """Tokens that fit without growing."""
        return self.kept.shape[3]

    def grow(self, tokens: int) -> None:
        """Makes room for so many tokens in all."""
        wider = self._allocate(blocks(tokens))
        wider[:, :, :, : self.length].copy_(self.kept[:, :, :, : self.length])
        self.kept = wider

    def fill(self, piece: torch.Tensor) -> None:
        """Appends tokens computed earlier for the same ids, every layer at once."""
        end = self.length + piece.shape[3]
        self.kept[:, :, :, self.length : end].copy_(piece)
        self.length = end

    def write(self, layer: int, start: int, keys_H_T_D: torch.Tensor, values_H_T_D: torch.Tensor) -> None:
        """Stores one layer's keys and values from token `start` on; `length` is the caller's to move."""
        end = start + keys_H_T_D.shape[1]
        self.kept[0, layer, :, start:end].copy_(keys_H_T_D)
        self.kept[1, layer, :, start:end].copy_(values_H_T_D)

    def _allocate(self, capacity: int) -> torch.Tensor:
        layers, heads, width, dtype, device = self.layout
        return torch.empty((2, layers, heads, capacity, width), dtype=dtype, device=device)
