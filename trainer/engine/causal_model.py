"""The model: loading, the forward pass of a step, the check that it computes what transformers computes."""

import json
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from collector.errors import UserError
from trainer.engine.attention import RAGGED, Row, Step
from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.kv_buffer import KvBuffer, KvLayout
from trainer.engine_config import EngineConfig

PROOF_TOKENS = 24
"""Tokens of the start-up comparison with transformers' own forward pass."""
PROOF_TOLERANCE = 1e-4
"""Nats in float32; SmolLM2-135M shows 8e-6."""
PROOF_TOLERANCE_16_BIT = 0.25
"""Nats in bfloat16 and float16, where SmolLM2-135M shows 0.10 and 0.015."""
LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
"""Position encodings whose early positions change with the total length, so that no cached key stays right."""


class CausalModel:
    """A causal language model of transformers, and one forward pass over rows of many sequences."""

    def __init__(self, network: PreTrainedModel, folder: str) -> None:
        self.network = network
        self.folder = folder
        self.config: PreTrainedConfig = network.config
        self.layout = _kv_layout(network)
        self.vocab_size = int(cast(torch.nn.Embedding, network.get_input_embeddings()).weight.shape[0])
        """Token ids that the model knows."""
        self.eos_ids = _eos_ids(network)

    @classmethod
    def load(cls, folder: str, settings: EngineConfig) -> "CausalModel":
        """Reads the safetensors of a folder; refuses a model that it would compute otherwise than transformers."""
        dtype = cast(torch.dtype, getattr(torch, settings.dtype or "float32"))
        network = read_network(folder, dtype=dtype)
        cast(torch.nn.Module, network).to(settings.device or "cpu")
        model = cls(network, folder)
        try:
            model.prove(tolerance=PROOF_TOLERANCE if dtype == torch.float32 else PROOF_TOLERANCE_16_BIT)
        except EngineRefusal as refusal:
            raise UserError(f"{folder}: {refusal}") from refusal
        return model

    @property
    def max_context(self) -> int:
        """Positions the model was made for."""
        return int(self.config.max_position_embeddings)

    def forward(self, ids: list[int], rows: list[Row], wanted: list[int]) -> torch.Tensor:
        """Logits, float32 [wanted, vocabulary], at the indices `wanted` of the step's tokens."""
        device = self.layout.device
        positions = [row.past + offset for row in rows for offset in range(row.tokens)]
        output = self.network(
            input_ids=torch.tensor([ids], device=device),
            position_ids=torch.tensor([positions], device=device),
            use_cache=False,
            logits_to_keep=torch.tensor(wanted, dtype=torch.long, device=device),
            step=Step(rows),
        )
        for row in rows:
            row.kv.length = row.past + row.tokens
        if output.logits.shape[1] != len(wanted):
            raise EngineRefusal(
                "the model gives logits of every token, expected only of those asked for (logits_to_keep)"
            )
        return output.logits[0].float()

    def prove(self, *, tolerance: float) -> None:
        """Compares a sequence computed in two pieces beside another one with transformers' own forward pass."""
        generator = torch.Generator().manual_seed(1)
        ids = cast("list[int]", torch.randint(self.vocab_size, (PROOF_TOKENS,), generator=generator).tolist())
        with torch.inference_mode():
            self.network.set_attn_implementation("eager")
            plain = self.network(torch.tensor([ids], device=self.layout.device), use_cache=False).logits[0].float()
            self.network.set_attn_implementation(RAGGED)
            ours = self._in_two_pieces(ids)
        expected = plain.log_softmax(-1)
        # Unlikely tokens are rounded badly in 16 bits, so a difference counts by the token's probability.
        differences = (expected - ours.log_softmax(-1)).abs() * expected.exp()
        worst = differences.sum(-1).max().item()
        if not worst <= tolerance:
            raise EngineRefusal(
                f"log-probabilities differ from transformers' own forward pass by {worst:.3g} on average, expected at "
                f"most {tolerance}: the model's attention is not plain causal attention; serve it with SGLang"
            )

    def _in_two_pieces(self, ids: list[int]) -> torch.Tensor:
        cut = PROOF_TOKENS // 2
        mine, other = KvBuffer(self.layout, PROOF_TOKENS), KvBuffer(self.layout, PROOF_TOKENS)
        alone = self.forward(ids[:cut], [Row(mine, 0, cut, 0)], list(range(cut)))
        rest = PROOF_TOKENS - cut
        rows = [Row(other, 0, 5, 0), Row(mine, 5, 5 + rest, cut)]
        beside = self.forward([*ids[:5], *ids[cut:]], rows, list(range(5, 5 + rest)))
        return torch.cat([alone, beside])


def read_network(folder: str, *, dtype: torch.dtype) -> PreTrainedModel:
    """Loads a model from the safetensors of a folder; a missing, left-over or misshapen weight is refused."""
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise UserError(f"{folder}: no config.json found, expected the folder of a Hugging Face model")
    try:
        config = cast(PreTrainedConfig, AutoConfig.from_pretrained(folder, local_files_only=True))
        _refuse_attention(folder, config)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            attn_implementation="eager",
            output_loading_info=True,
        )
    except (OSError, ValueError, json.JSONDecodeError) as error:
        raise UserError(f"{folder}: cannot be loaded as a causal language model: {error}") from error
    network, report = cast("tuple[PreTrainedModel, dict[str, Any]]", loaded)
    _refuse_gaps(folder, report)
    if not getattr(network, "_supports_attention_backend", False):
        raise UserError(
            f"{folder}: {type(network).__name__} has an attention of its own, expected one that transformers lets "
            "others replace; serve this model with SGLang (roundhouse engine --sglang)"
        )
    network.eval().requires_grad_(False)
    return network


def _refuse_attention(folder: str, config: PreTrainedConfig) -> None:
    kinds = set(cast("list[str]", getattr(config, "layer_types", None) or [])) - {"full_attention"}
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    if kinds or (window is not None and getattr(config, "layer_types", None) is None):
        found = ", ".join(sorted(kinds)) or f"a sliding window of {window} tokens"
        raise UserError(f"{folder}: found {found}, expected full attention in every layer; serve it with SGLang")
    rope = cast("dict[str, Any]", getattr(config, "rope_parameters", None) or {})
    nested = [cast("dict[str, Any]", part) for part in rope.values() if isinstance(part, dict)]
    kinds = {str(part.get("rope_type")) for part in [rope, *nested]} & set(LENGTH_DEPENDENT_ROPE)
    if kinds:
        raise UserError(
            f"{folder}: found {kinds.pop()} position encoding, expected one that does not depend on the total length; "
            "serve it with SGLang"
        )


def _refuse_gaps(folder: str, report: dict[str, Any]) -> None:
    for kind in ("missing_keys", "mismatched_keys", "unexpected_keys"):
        names = [str(name) for name in report.get(kind, ())]
        if names:
            shown = ", ".join(sorted(names)[:3])
            raise UserError(f"{folder}: {len(names)} weights are {kind.removesuffix('_keys')}: {shown}; expected none")


def _kv_layout(network: PreTrainedModel) -> KvLayout:
    config = network.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return KvLayout(config.num_hidden_layers, heads, width, network.dtype, network.device)


def _eos_ids(network: PreTrainedModel) -> frozenset[int]:
    found: set[int] = set()
    for source in (network.config, network.generation_config):
        ids = getattr(source, "eos_token_id", None)
        found.update([ids] if isinstance(ids, int) else ids or [])
    return frozenset(found)
