"""Attention over rows of unequal length, each row alone: what a sequence gets never depends on the batch."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.kv_buffer import KvBuffer

RAGGED = "roundhouse_ragged"
"""Name under which transformers finds the attention function of this module."""


@dataclass(frozen=True)
class Row:
    """The tokens of one sequence in a step: `start` to `end` of the step, after `past` tokens of the sequence."""

    kv: KvBuffer
    start: int
    end: int
    past: int

    @property
    def tokens(self) -> int:
        """Tokens computed in this step."""
        return self.end - self.start


@dataclass(frozen=True)
class Step:
    """One forward pass: rows one after another, without padding."""

    rows: list[Row]
    masks: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    """Causal mask of each row longer than one token, by its start; the same for every layer."""

    def mask(self, row: Row, repeats: int) -> torch.Tensor | None:
        """Which tokens each query may see, repeated for the query heads that share a key head."""
        if row.tokens == 1:
            return None
        known = self.masks.get(row.start)
        if known is None:
            shape = (row.tokens, row.past + row.tokens)
            causal = torch.ones(shape, dtype=torch.bool, device=row.kv.kept.device).tril(row.past)
            known = self.masks[row.start] = causal.repeat(repeats, 1)
        return known


def ragged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    step: Step | None = None,
    **others: Any,  # transformers passes whatever the model's family needs
) -> tuple[torch.Tensor, None]:
    """Stores keys and values, [1, head, token, width], of the step's rows and attends each row to its own sequence."""
    del dropout
    _refuse_unknown(attention_mask, others)
    assert step is not None, "the step is handed down by CausalModel.forward"
    layer = module.layer_idx
    assert isinstance(layer, int)
    key_heads = key.shape[1]
    repeats, width = query.shape[1] // key_heads, value.shape[3]
    out = query.new_empty((1, query.shape[2], query.shape[1], width))
    for row in step.rows:
        part = slice(row.start, row.end)
        row.kv.write(layer, row.past, key[0, :, part], value[0, :, part])
        seen = row.kv.kept[:, layer, :, : row.past + row.tokens]
        grouped = query[0, :, part].reshape(1, key_heads, repeats * row.tokens, query.shape[3])
        mixed = scaled_dot_product_attention(
            grouped, seen[0].unsqueeze(0), seen[1].unsqueeze(0), attn_mask=step.mask(row, repeats), scale=scaling
        )
        out[0, part] = mixed.reshape(-1, row.tokens, width).transpose(0, 1)
    return out, None


def _refuse_unknown(attention_mask: torch.Tensor | None, others: dict[str, Any]) -> None:
    assert attention_mask is None, "transformers makes no mask for an attention function it does not know"
    for name in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if others.get(name) is not None:
            raise EngineRefusal(
                f"the model's attention uses {name}, expected plain causal attention; "
                "serve this model with SGLang (roundhouse engine --sglang)"
            )


AttentionInterface.register(RAGGED, ragged_attention)
