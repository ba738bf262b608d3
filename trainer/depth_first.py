"""The gradient of a packed microbatch, node by node: only one path from a root to a leaf is held at a time.

A node is computed after its ancestors, whose keys and values it reads as leaves that gather gradients. When all that
follows it is done, it goes backward itself, with its own losses and with what its descendants left at its keys and
values. Each node is computed once, as in the packed pass.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from collector.errors import UserError
from trainer.lora import LoraHooks, TrainedAdapter
from trainer.packing import AdapterSlice, Packed
from trainer.prefix_nodes import Node, prefix_nodes
from trainer.scorer import Scored, Scorer
from trainer.tree_attention import Block, attend_blocks, blocks_of


class DepthFirst:
    """One microbatch walked node by node."""

    def __init__(
        self,
        scorer: Scorer,
        hooks: LoraHooks,
        packed: Packed,
        adapters: Mapping[str, TrainedAdapter],
        *,
        repeats: int,
        device: torch.device,
    ) -> None:
        self._scorer = scorer
        self._hooks = hooks
        self._packed = packed.to(device)
        self._adapters = adapters
        self._repeats = repeats
        self._nodes = prefix_nodes(packed)
        starts = torch.tensor([node.start for node in self._nodes], device=device)
        self._nodes_N = torch.bucketize(self._packed.predicting_N, starts, right=True) - 1

    def backward(self, loss_of: Callable[[Scored, Tensor], Tensor]) -> None:
        """Adds the gradients of the loss to the adapters'; it is asked for node by node."""
        path: list[_Pass] = []
        for index, node in enumerate(self._nodes):
            while path and path[-1].index != node.parent:
                self._leave(path.pop())
            path.append(self._enter(index, tuple(path), loss_of))
        while path:
            self._leave(path.pop())

    def _enter(self, index: int, path: tuple["_Pass", ...], loss_of: Callable[[Scored, Tensor], Tensor]) -> "_Pass":
        packed, node = self._packed, self._nodes[index]
        made = _Pass(index, node, path, repeats=self._repeats, device=packed.ids_T.device)
        indices = (self._nodes_N == index).nonzero()[:, 0]
        self._activate(made)
        scored = self._scorer(
            packed.ids_T[node.start : node.end],
            packed.positions_T[node.start : node.end],
            made,
            packed.predicting_N[indices] - node.start,
            packed.targets_N[indices],
            packed.temperatures_N[indices],
        )
        made.computed = True
        if len(indices):
            made.loss = loss_of(scored, indices)
        return made

    def _leave(self, done: "_Pass") -> None:
        self._activate(done)  # layers that are computed again add the adapters of this node
        done.backward()

    def _activate(self, of: "_Pass") -> None:
        self._hooks.activate([AdapterSlice(of.node.adapter, 0, of.tokens)], self._adapters)


class _KeyValue(NamedTuple):
    """Keys and values of a node in one attention module."""

    key: Tensor
    value: Tensor

    def leaves(self) -> "_KeyValue":
        """The same numbers, cut off: what follows leaves its gradients there."""
        return _KeyValue(*(tensor.detach().requires_grad_(tensor.requires_grad) for tensor in self))


class _Pass:
    """A node on the path: its graph, and its keys and values for what follows it."""

    def __init__(
        self, index: int, node: Node, ancestors: tuple["_Pass", ...], *, repeats: int, device: torch.device
    ) -> None:
        self.index = index
        self.node = node
        self.tokens = node.end - node.start
        self.loss: Tensor | None = None
        """Of the node's own trained tokens."""
        self.computed = False
        """Whether the forward pass is done: a layer that attends again is computed again for its gradient."""
        self.leaves: dict[torch.nn.Module, _KeyValue] = {}
        self._own: dict[torch.nn.Module, _KeyValue] = {}
        self._ancestors = ancestors
        past = sum(each.tokens for each in ancestors)
        self._blocks = blocks_of(0, self.tokens, past, repeats, device)

    def attend(
        self, module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float | None
    ) -> Tensor:
        """To the ancestors and, causally, to the node itself."""
        row = _KeyValue(key, value)
        if not self.computed:
            if module in self._own:
                raise UserError("a layer attends twice in one pass, expected once; train this model with mode packed")
            self._own[module], self.leaves[module] = row, row.leaves()
        path = [each.leaves[module] for each in self._ancestors]
        attend = partial(_attend, self._blocks, scaling, len(path))
        tensors = [query, *(each.key for each in (*path, row)), *(each.value for each in (*path, row))]
        # Joined keys and values would be kept once per node: on a deep path they are joined again instead.
        if path and torch.is_grad_enabled():
            return cast(Tensor, checkpoint(attend, *tensors, use_reentrant=False, preserve_rng_state=False))
        return attend(*tensors)

    def backward(self) -> None:
        """Adds the node's gradients to the adapters' and to its ancestors' keys and values."""
        outputs: list[Tensor] = [] if self.loss is None or not self.loss.requires_grad else [self.loss]
        gradients: list[Tensor | None] = [None] * len(outputs)
        for module, own in self._own.items():
            for tensor, leaf in zip(own, self.leaves[module], strict=True):
                if leaf.grad is not None:
                    outputs.append(tensor)
                    gradients.append(leaf.grad)
        if outputs:
            torch.autograd.backward(outputs, gradients)  # pyright: ignore[reportUnknownMemberType]


def _attend(blocks: tuple[Block, ...], scaling: float | None, ancestors: int, query: Tensor, *row: Tensor) -> Tensor:
    keys, values = row[: ancestors + 1], row[ancestors + 1 :]
    return torch.cat(attend_blocks(query, torch.cat(keys, dim=2), torch.cat(values, dim=2), blocks, scaling), dim=2)
