"""Attention over a packed prefix tree: each branch sees its own row's tokens and nothing else."""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from collector.errors import UserError
from trainer.packing import Branch

TREE = "roundhouse_tree"
"""Name under which transformers finds the attention function of this module."""

BLOCK_TOKENS = 512
"""Queries of one attention call: they see keys up to their own last token only, so that less is computed and masked."""


class Block(NamedTuple):
    """Some queries of a branch, and what they see."""

    start: int
    """Packed index of the first query."""
    end: int
    keys_end: int
    """How many tokens of the branch's row they may see."""
    mask: Tensor
    """bool [queries of all heads that share a key head, keys_end]."""


class Attending(Protocol):
    """What one forward pass attends to: the packed tokens of a tree, or one node after its ancestors."""

    def attend(
        self, module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float | None
    ) -> Tensor:
        """[1, head, token, width] of the queries of one attention module."""
        ...


class Tree(NamedTuple):
    """The branches of one forward pass, each cut into blocks of queries."""

    branches: tuple[tuple[Branch, tuple[Block, ...]], ...]

    @classmethod
    def of(cls, branches: tuple[Branch, ...], *, repeats: int, device: torch.device) -> "Tree":
        """With masks for `repeats` query heads that share a key head."""
        return cls(
            tuple((branch, blocks_of(branch.start, branch.end, branch.past, repeats, device)) for branch in branches)
        )

    def attend(
        self, module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float | None
    ) -> Tensor:
        """Each branch to the keys of its path and, causally, its own."""
        del module
        outputs: list[Tensor] = []
        for branch, blocks in self.branches:
            outputs += attend_blocks(query, _row(key, branch), _row(value, branch), blocks, scaling)
        return torch.cat(outputs, dim=2)


def blocks_of(start: int, end: int, past: int, repeats: int, device: torch.device) -> tuple[Block, ...]:
    """Queries `start` to `end`, which have `past` tokens of their row before them, cut into blocks."""
    made: list[Block] = []
    for first in range(start, end, BLOCK_TOKENS):
        last = min(first + BLOCK_TOKENS, end)
        before = past + first - start
        keys = before + last - first
        mask = torch.ones((last - first, keys), dtype=torch.bool, device=device).tril(before)
        made.append(Block(first, last, keys, mask.repeat(repeats, 1)))
    return tuple(made)


def attend_blocks(
    query: Tensor, keys: Tensor, values: Tensor, blocks: tuple[Block, ...], scaling: float | None
) -> list[Tensor]:
    """[1, head, token, width] of each block, to the keys and values of its row."""
    key_heads, width = keys.shape[1], values.shape[3]
    repeats = query.shape[1] // key_heads
    outputs: list[Tensor] = []
    for start, end, keys_end, mask in blocks:
        grouped = query[:, :, start:end].reshape(1, key_heads, repeats * (end - start), query.shape[3])
        mixed = scaled_dot_product_attention(
            grouped, keys[:, :, :keys_end], values[:, :, :keys_end], attn_mask=mask, scale=scaling
        )
        outputs.append(mixed.reshape(1, key_heads * repeats, end - start, width))
    return outputs


def tree_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    tree: Attending | None = None,
    **others: Any,  # transformers passes whatever the model's family needs
) -> tuple[Tensor, None]:
    """What transformers calls in every layer: [1, token, head, width]."""
    del dropout
    _refuse_unknown(attention_mask, others)
    assert tree is not None, "the tree is handed down by the policy's forward pass"
    return tree.attend(module, query, key, value, scaling).transpose(1, 2), None


def _row(tensor: Tensor, branch: Branch) -> Tensor:
    """Keys or values of a branch's whole row."""
    own = tensor[:, :, branch.start : branch.end]
    return own if branch.context is None else torch.cat([tensor.index_select(2, branch.context), own], dim=2)


def _refuse_unknown(attention_mask: Tensor | None, others: dict[str, Any]) -> None:
    assert attention_mask is None, "transformers makes no mask for an attention function it does not know"
    for name in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if others.get(name) is not None:
            raise UserError(f"the model's attention uses {name}, expected plain causal attention to train with")


AttentionInterface.register(TREE, tree_attention)
