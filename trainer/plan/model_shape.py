"""The shape of a model, read from its `config.json`, and what it counts: parameters, widths, LoRA matrices."""

import json
from pathlib import Path
from typing import Any, cast

import msgspec

FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
"""`model_type` values whose parameter count is tested against transformers."""

_DEFAULT_HEAD_WIDTH = {"qwen3": 128}


class Matrix(msgspec.Struct, frozen=True):
    """A linear layer: how wide what goes in and what comes out is, and how many the model has."""

    name: str
    d_in: int
    d_out: int
    count: int


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """What the arithmetic needs to know of a decoder-only model with full attention."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    tied_embeddings: bool
    dense_width: int
    """Inner width of the feed-forward block of a dense layer."""
    moe_layers: int = 0
    """Layers whose feed-forward block is a mixture of experts."""
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    """Inner width of one expert."""
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    head_norms: bool = False
    """Whether queries and keys are normalised per head (Qwen3)."""

    @property
    def attention_width(self) -> int:
        """Width of all query heads together: what a query-key pair costs is proportional to it."""
        return self.heads * self.head_width

    @property
    def kv_width(self) -> int:
        """Width of all key heads together, or of all value heads."""
        return self.kv_heads * self.head_width

    @property
    def dense_layers(self) -> int:
        """Layers with an ordinary feed-forward block."""
        return self.layers - self.moe_layers

    @property
    def attention_and_dense_matrices(self) -> tuple[Matrix, ...]:
        """The linear layers that every token passes through, and that LoRA adapts: no router, no expert, no head."""
        attention = (
            Matrix("q_proj", self.hidden, self.attention_width, self.layers),
            Matrix("k_proj", self.hidden, self.kv_width, self.layers),
            Matrix("v_proj", self.hidden, self.kv_width, self.layers),
            Matrix("o_proj", self.attention_width, self.hidden, self.layers),
        )
        if not self.dense_layers:
            return attention
        return (
            *attention,
            Matrix("gate_proj", self.hidden, self.dense_width, self.dense_layers),
            Matrix("up_proj", self.hidden, self.dense_width, self.dense_layers),
            Matrix("down_proj", self.dense_width, self.hidden, self.dense_layers),
        )

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert of one layer."""
        return 3 * self.hidden * self.expert_width

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embedding, which is looked up and not multiplied."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """Every parameter once; tied embeddings count once."""
        embeddings = self.embedding_parameters * (1 if self.tied_embeddings else 2)
        experts = self.moe_layers * self.experts * self.expert_parameters
        return embeddings + self._always_multiplied + experts + self._vectors

    @property
    def matmul_parameters(self) -> int:
        """Parameters a token is multiplied with: linear layers, router, its own experts and the output head."""
        experts = self.moe_layers * self.experts_per_token * self.expert_parameters
        return self._always_multiplied + experts + self.vocabulary * self.hidden

    @property
    def _always_multiplied(self) -> int:
        matrices = sum(each.d_in * each.d_out * each.count for each in self.attention_and_dense_matrices)
        return matrices + self.moe_layers * self.hidden * self.experts

    @property
    def _vectors(self) -> int:
        norms = 2 * self.hidden + (2 * self.head_width if self.head_norms else 0)
        biases = (self.attention_width + 2 * self.kv_width) * self.qkv_bias + self.hidden * self.output_bias
        dense_biases = (2 * self.dense_width + self.hidden) * self.mlp_bias
        return self.layers * (norms + biases) + self.dense_layers * dense_biases + self.hidden

    def distinct_experts(self, tokens: float) -> float:
        """Experts of one layer that `tokens` tokens are expected to touch when routing is uniform and independent."""
        if not self.experts:
            return 0.0
        return self.experts * (1 - (1 - self.experts_per_token / self.experts) ** tokens)


def read_model_shape(path: Path) -> ModelShape:
    """The shape in a `config.json`, or in the folder that holds one."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config: Any = json.loads(file.read_text(encoding="utf-8"))  # JSON enters here
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror}), expected a model's config.json") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: not JSON, expected a model's config.json or the folder that holds one") from error
    if not isinstance(config, dict):
        raise ValueError(f"{file}: holds {type(config).__name__}, expected the JSON object of a model's config.json")
    try:
        return shape_of(cast(dict[str, Any], config))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def shape_of(config: dict[str, Any]) -> ModelShape:
    """The shape a parsed config describes; refuses what the arithmetic here would count wrongly."""
    family = str(config.get("model_type"))
    _refuse_other_architectures(config, family)
    heads, hidden = _count(config, "num_attention_heads"), _count(config, "hidden_size")
    layers = _count(config, "num_hidden_layers")
    moe_layers = _moe_layers(config, layers)
    head_width = _count(config, "head_dim", _DEFAULT_HEAD_WIDTH.get(family, hidden // heads))
    attention_bias = bool(config.get("attention_bias", False))
    return ModelShape(
        family=family,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads", heads),
        head_width=head_width,
        vocabulary=_count(config, "vocab_size"),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        dense_width=_count(config, "intermediate_size") if moe_layers < layers else 0,
        moe_layers=moe_layers,
        experts=_experts(config) if moe_layers else 0,
        experts_per_token=_count(config, "num_experts_per_tok") if moe_layers else 0,
        expert_width=_count(config, "intermediate_size" if family == "mixtral" else "moe_intermediate_size")
        if moe_layers
        else 0,
        qkv_bias=family == "qwen2" or attention_bias,
        output_bias=family != "qwen2" and attention_bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
        head_norms=family in ("qwen3", "qwen3_moe"),
    )


def _refuse_other_architectures(config: dict[str, Any], family: str) -> None:
    if config.get("kv_lora_rank"):
        raise ValueError(
            f"model_type {family!r} caches a compressed latent (MLA: kv_lora_rank), whose KV bytes and FLOPs the plan "
            f"does not count; expected one of {', '.join(FAMILIES)}"
        )
    if family not in FAMILIES:
        raise ValueError(f"model_type is {family!r}, expected one of {', '.join(FAMILIES)}")
    window = config.get("sliding_window")
    # Qwen states a window that use_sliding_window turns on; Mistral's is on when stated.
    if window and config.get("use_sliding_window", not family.startswith("qwen")):
        raise ValueError(f"sliding_window is {window}; the plan counts full attention, where a cache grows with length")
    if config.get("quantization_config"):
        raise ValueError("quantization_config is set; the plan counts bf16 weights: give the unquantised config.json")


def _moe_layers(config: dict[str, Any], layers: int) -> int:
    if config.get("model_type") == "mixtral":
        return layers
    if config.get("model_type") != "qwen3_moe" or not _experts(config):
        return 0
    every: int = config.get("decoder_sparse_step", 1)
    dense: list[int] = config.get("mlp_only_layers") or []
    return sum(1 for layer in range(layers) if layer not in dense and (layer + 1) % every == 0)


def _experts(config: dict[str, Any]) -> int:
    return _count(config, "num_experts" if "num_experts" in config else "num_local_experts")


def _count(config: dict[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if value is None:
        raise ValueError(f"{key} is missing, expected a whole number above 0")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{key} is {value!r}, expected a whole number above 0")
    return value
