"""Models that would be trained wrongly, by what their configuration says; the policy's proof looks for the rest."""

from collections.abc import Iterator
from typing import Any, cast

import torch
from transformers import PreTrainedModel

from collector.errors import UserError

STATIC_ROPE = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding that depend on a token's position alone, shown equal row by row in the tests."""


def refuse_model(network: PreTrainedModel) -> None:
    """Raises where attention, positions or head are not those that a packed pass computes."""
    config = cast(Any, network.config.get_text_config())  # Any: every family has its own configuration
    reason = _head(network, config) or _attention(network, config) or _positions(config) or _dropout(network, config)
    if reason is not None:
        raise UserError(f"{type(network).__name__} cannot be trained: {reason}; choose another base model")


def _head(network: PreTrainedModel, config: Any) -> str | None:
    head = cast(object, network.get_output_embeddings())
    if not isinstance(head, torch.nn.Linear) or "bias" in dict(head.named_parameters()):
        return "it has a head of its own, expected a linear one without a bias"
    if getattr(config, "final_logit_softcapping", None) is not None:
        return f"final_logit_softcapping is {config.final_logit_softcapping}, expected plain logits"
    for name in ("logit_scale", "logits_scaling"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            return f"{name} is {getattr(config, name)}, expected plain logits"
    return None


def _attention(network: PreTrainedModel, config: Any) -> str | None:
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder and a decoder, expected a causal language model"
    if not network._can_set_attn_implementation():  # pyright: ignore[reportPrivateUsage]
        return "its attention cannot be replaced, expected one that uses transformers' attention interface"
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return f"attn_logit_softcapping is {config.attn_logit_softcapping}, expected plain attention"
    other = sorted(set(getattr(config, "layer_types", None) or ()) - {"full_attention"})
    if other:
        return f"layers of type {', '.join(other)}, expected full_attention in every layer"
    window = getattr(config, "sliding_window", None)
    if window is not None and getattr(config, "use_sliding_window", True):
        return f"sliding_window is {window}, expected attention to every token before"
    return None


def _positions(config: Any) -> str | None:
    rope = cast("dict[str, Any]", getattr(config, "rope_parameters", None) or {})
    # One entry, or one for each type of layer.
    kinds = [rope] if not any(isinstance(value, dict) for value in rope.values()) else list(rope.values())
    for kind in kinds:
        found = kind.get("rope_type", "default")
        if found not in STATIC_ROPE:
            return f"rope_type is {found}, expected one that depends on the position alone ({', '.join(STATIC_ROPE)})"
    return None


def _dropout(network: PreTrainedModel, config: Any) -> str | None:
    modules = cast("Iterator[tuple[str, torch.nn.Module]]", network.named_modules())
    rates = [name for name, module in modules if isinstance(module, torch.nn.Dropout) and module.p > 0]
    rates += ["attention_dropout"] if getattr(config, "attention_dropout", 0.0) else []
    return f"it drops out ({rates[0]}), expected none: pi of a trained token would be random" if rates else None
