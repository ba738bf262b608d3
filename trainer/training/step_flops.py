"""Model FLOPs of a pass over a packed prefix tree, counted from its shapes: training, scoring and recomputation apart.

Per computed token 4 per frozen parameter of the body (no gradient of a frozen weight) and 6 per parameter of the
token's own adapter; attention over the query-key pairs that a row has, three times its forward pass; the head where
there is a loss, 4 per parameter. Norms, softmax, rotation and activation functions are not counted. The arithmetic of
one row is `trainer.plan.flops`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from transformers import PreTrainedModel

from trainer.config import BackwardMode
from trainer.linear_modules import linear_modules
from trainer.lora import TrainedAdapter
from trainer.packing import AdapterSlice, Packed
from trainer.plan.flops import attention_flops_per_pair, causal_pairs, forward_flops, lora_training_flops
from trainer.plan.model_shape import shape_of
from trainer.prefix_nodes import prefix_nodes


class PassShape(NamedTuple):
    """What the FLOPs of a model hang on."""

    body_parameters: int
    """Frozen parameters that every token is multiplied with."""
    head_parameters: int
    layers: int
    attention_width: int
    """Width of all query heads together."""

    @classmethod
    def of(cls, network: PreTrainedModel) -> "PassShape | None":
        """None for a model whose products cannot be counted: experts of a family that the plan does not know."""
        config = network.config
        head = config.vocab_size * config.hidden_size
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        attention = config.num_attention_heads * width
        if not _has_experts(network):
            body = sum(each.in_features * each.out_features for each in linear_modules(network).values())
            return cls(body, head, config.num_hidden_layers, attention)
        try:
            counted = shape_of(config.to_dict()).matmul_parameters
        except ValueError:
            return None
        return cls(counted - head, head, config.num_hidden_layers, attention)


class _Slice(NamedTuple):
    """The tokens of one adapter in a packing."""

    tokens: int
    pairs: int
    adapter_parameters: int


def training_flops(shape: PassShape, packed: Packed, adapters: Mapping[str, TrainedAdapter]) -> float:
    """Forward and backward, each once."""
    pair = attention_flops_per_pair(layers=shape.layers, attention_width=shape.attention_width)
    body = sum(
        lora_training_flops(
            tokens=each.tokens,
            attention_forward=pair * each.pairs,
            matmul_parameters=shape.body_parameters,
            adapter_parameters=each.adapter_parameters,
        )
        for each in _slices(packed, adapters)
    )
    return body + 4 * shape.head_parameters * len(packed.targets_N)


def scoring_flops(shape: PassShape, packed: Packed, adapters: Mapping[str, TrainedAdapter]) -> float:
    """A forward pass without gradients."""
    return _body_forward(shape, packed, adapters) + 2 * shape.head_parameters * len(packed.targets_N)


def recomputation_flops(
    shape: PassShape,
    packed: Packed,
    adapters: Mapping[str, TrainedAdapter],
    *,
    checkpointing: bool,
    mode: BackwardMode = "packed",
) -> float:
    """What the backward pass computes again: the logits always, the body where only layer inputs are kept.

    Depth first, attention to ancestors is computed again as well: their joined keys are not kept, nor when a layer that
    is itself computed again attends to them.
    """
    body = _body_forward(shape, packed, adapters) if checkpointing else 0.0
    if mode == "depth_first":
        pair = attention_flops_per_pair(layers=shape.layers, attention_width=shape.attention_width)
        body += pair * _rejoined_pairs(packed)
    return body + 2 * shape.head_parameters * len(packed.targets_N)


def _rejoined_pairs(packed: Packed) -> int:
    """Query-key pairs of the nodes that follow another one and have a gradient: a loss in them or behind them."""
    nodes = prefix_nodes(packed)
    starts = [node.start for node in nodes]
    past = [0] * len(nodes)
    for index, node in enumerate(nodes):
        if node.parent is not None:
            past[index] = past[node.parent] + nodes[node.parent].end - nodes[node.parent].start
    needed: set[int] = set()
    for token in cast("list[int]", packed.predicting_N.tolist()):
        index: int | None = bisect_right(starts, token) - 1
        while index is not None and index not in needed:
            needed.add(index)
            index = nodes[index].parent
    chosen = [(node.end - node.start, past[index]) for index, node in enumerate(nodes) if index in needed]
    return sum(tokens * before + causal_pairs(tokens) for tokens, before in chosen if before)


def _body_forward(shape: PassShape, packed: Packed, adapters: Mapping[str, TrainedAdapter]) -> float:
    return sum(
        forward_flops(
            tokens=each.tokens,
            pairs=each.pairs,
            matmul_parameters=shape.body_parameters + each.adapter_parameters,
            layers=shape.layers,
            attention_width=shape.attention_width,
        )
        for each in _slices(packed, adapters)
    )


def _slices(packed: Packed, adapters: Mapping[str, TrainedAdapter]) -> Iterator[_Slice]:
    for piece in packed.slices:
        parameters = 0
        if piece.adapter is not None:
            parameters = sum(parameter.numel() for parameter in adapters[piece.adapter].parameters())
        yield _Slice(piece.end - piece.start, _pairs(packed, piece), parameters)


def _pairs(packed: Packed, piece: AdapterSlice) -> int:
    """Query-key pairs of the branches in a slice: each token sees its path and itself."""
    inside = [branch for branch in packed.branches if piece.start <= branch.start < piece.end]
    return sum(branch.tokens * branch.past + causal_pairs(branch.tokens) for branch in inside)


def _has_experts(network: PreTrainedModel) -> bool:
    """Whether tokens choose among weights: stacked ones, or a list of small networks."""
    return any(parameter.ndim > 2 or ".experts." in name for name, parameter in network.named_parameters())
