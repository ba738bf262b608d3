"""Tests of trainer.plan.model_shape: parameter counts of transformers and peft, and clear refusals."""

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from trainer.plan.memory import lora_parameters
from trainer.plan.model_shape import read_model_shape, shape_of

TINY: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
EXPERTS: dict[str, Any] = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**TINY),
    "llama, tied": LlamaConfig(**TINY, tie_word_embeddings=True),
    "llama, biases": LlamaConfig(**TINY, attention_bias=True, mlp_bias=True),
    "llama, wide heads": LlamaConfig(**TINY, head_dim=16),
    "mistral": MistralConfig(**TINY, sliding_window=None),
    "mixtral": MixtralConfig(**TINY, num_local_experts=4, num_experts_per_tok=2),
    "qwen2": Qwen2Config(**TINY, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**TINY, head_dim=16),
    "qwen3, default heads": Qwen3Config(**TINY),
    "qwen3, biases": Qwen3Config(**TINY, head_dim=16, attention_bias=True),
    "qwen3_moe": Qwen3MoeConfig(**TINY, **EXPERTS, head_dim=16),
    "qwen3_moe, some dense": Qwen3MoeConfig(**TINY, **EXPERTS, head_dim=16, mlp_only_layers=[1]),
    "qwen3_moe, every second": Qwen3MoeConfig(**TINY, **EXPERTS, head_dim=16, decoder_sparse_step=2),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_parameters_are_those_transformers_builds(config: PreTrainedConfig, tmp_path: Path) -> None:
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert read_model_shape(tmp_path).parameters == sum(each.numel() for each in model.parameters())


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
@pytest.mark.parametrize("config", [CONFIGS["llama"], CONFIGS["qwen3"]], ids=["llama", "qwen3"])
def test_lora_parameters_are_those_peft_adds(config: PreTrainedConfig) -> None:
    model = AutoModelForCausalLM.from_config(config)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=targets))
    trained = sum(each.numel() for each in adapted.parameters() if each.requires_grad)
    assert lora_parameters(shape_of(config.to_dict()), rank=4) == trained


def test_an_untied_dense_model_multiplies_all_but_embedding_and_vectors() -> None:
    model = AutoModelForCausalLM.from_config(CONFIGS["llama"])
    multiplied = sum(each.weight.numel() for each in model.modules() if isinstance(each, torch.nn.Linear))
    assert shape_of(CONFIGS["llama"].to_dict()).matmul_parameters == multiplied


def test_published_models_have_their_published_counts() -> None:
    llama_8b = shape_of(
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
        }
    )
    assert llama_8b.parameters == 8_030_261_248
    qwen3_30b_a3b = shape_of(
        {
            "model_type": "qwen3_moe",
            "hidden_size": 2048,
            "head_dim": 128,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_attention_heads": 32,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 48,
            "num_key_value_heads": 4,
            "vocab_size": 151936,
        }
    )
    assert qwen3_30b_a3b.parameters == 30_532_122_624
    assert qwen3_30b_a3b.matmul_parameters / 1e9 == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, r"caches a compressed latent \(MLA"),
        ({"model_type": "gemma3"}, "model_type is 'gemma3', expected one of llama"),
        ({"model_type": None}, "model_type is 'None'"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, expected a whole number above 0"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding_window is 4096"),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True}, "sliding_window is 4096"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is set"),
    ],
)
def test_what_would_be_counted_wrongly_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shape_of({"model_type": "llama", **TINY} | change)


def test_a_window_that_is_off_is_no_window() -> None:
    config = {"model_type": "qwen2", **TINY, "sliding_window": 4096, "use_sliding_window": False}
    assert shape_of(config).layers == 3


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_a_file_that_is_no_config_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"config\.json"):
        read_model_shape(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json: cannot be read"):
        read_model_shape(tmp_path)


def test_a_file_and_its_folder_read_alike(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **TINY}))
    assert read_model_shape(tmp_path) == read_model_shape(tmp_path / "config.json")
