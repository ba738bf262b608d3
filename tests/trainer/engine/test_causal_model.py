"""Loading a model: what computes as transformers does is served, anything else is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from collector.errors import UserError
from tests.trainer.engine.loopback import plain_logits
from trainer.engine import causal_model
from trainer.engine.attention import Row
from trainer.engine.causal_model import CausalModel
from trainer.engine.kv_buffer import KvBuffer
from trainer.engine_config import EngineConfig

SMALL = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def changed(source: Path, target: Path, **config: Any) -> str:
    shutil.copytree(source, target)
    file = target / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **config}))
    return str(target)


def load(folder: str | Path, **settings: Any) -> CausalModel:
    return CausalModel.load(str(folder), EngineConfig(**settings))


def test_rows_of_many_lengths_equal_plain_forward_passes(llama: Path) -> None:
    model = load(llama)
    first, second = [5, 6, 7, 8, 9], list(range(40))
    one, other = KvBuffer(model.layout, 64), KvBuffer(model.layout, 64)
    with torch.inference_mode():
        model.forward(second[:30], [Row(other, 0, 30, 0)], [])
        # The rest of one sequence, and the whole of another, in one step.
        logits = model.forward([*second[30:], *first], [Row(other, 0, 10, 30), Row(one, 10, 15, 0)], [9, 10, 14])
    expected = torch.stack([plain_logits(llama, second)[-1], *plain_logits(llama, first)[[0, 4]]])
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    assert (one.length, other.length) == (5, 40)


def test_end_tokens_come_from_both_configs(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    folder = changed(tiny_models["qwen3"], tmp_path / "m", eos_token_id=[3, 4])
    assert {3, 4, 258} <= load(folder).eos_ids


def test_another_family_with_replaceable_attention_is_served(tmp_path: Path) -> None:
    config = GPT2Config(vocab_size=90, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    assert load(tmp_path).max_context == 64


def test_a_16_bit_model_is_served(llama: Path) -> None:
    assert load(llama, dtype="bfloat16").layout.dtype == torch.bfloat16


def test_a_sliding_window_is_refused(tmp_path: Path) -> None:
    MistralForCausalLM(MistralConfig(sliding_window=8, **SMALL)).save_pretrained(tmp_path / "window")
    with pytest.raises(UserError, match=r"found .*, expected full attention in every layer"):
        load(tmp_path / "window")
    mixed = Qwen2Config(use_sliding_window=True, sliding_window=8, max_window_layers=1, **SMALL)
    Qwen2ForCausalLM(mixed).save_pretrained(tmp_path / "mixed")
    with pytest.raises(UserError, match="found sliding_attention, expected full attention"):
        load(tmp_path / "mixed")


def test_a_position_encoding_that_depends_on_the_length_is_refused(llama: Path, tmp_path: Path) -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    with pytest.raises(UserError, match="found dynamic position encoding"):
        load(changed(llama, tmp_path / "m", rope_parameters=rope))


def test_a_missing_weight_is_refused(llama: Path, tmp_path: Path) -> None:
    shutil.copytree(llama, tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"1 weights are missing: model\.layers\.1\.mlp\.up_proj\.weight"):
        load(tmp_path / "m")


def test_a_left_over_weight_is_refused(llama: Path, tmp_path: Path) -> None:
    shutil.copytree(llama, tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    save_file({**load_file(file), "model.extra.weight": torch.ones(2)}, file, metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"1 weights are unexpected: model\.extra\.weight"):
        load(tmp_path / "m")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json found"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="cannot be loaded as a causal language model"):
        load(tmp_path)


def test_a_model_without_safetensors_is_refused(llama: Path, tmp_path: Path) -> None:
    shutil.copytree(llama, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").rename(tmp_path / "m" / "pytorch_model.bin")
    with pytest.raises(UserError, match="cannot be loaded"):
        load(tmp_path / "m")


def test_the_proof_notices_a_wrong_forward_pass(llama: Path) -> None:
    model = load(llama)
    model.prove(tolerance=1e-4)
    scale = model.network.model.layers[0].self_attn.scaling
    plain_mode = model.network.set_attn_implementation

    def scaled_elsewhere(name: str) -> None:
        plain_mode(name)
        model.network.model.layers[0].self_attn.scaling = scale * (1.0 if name == "eager" else 1.01)

    model.network.set_attn_implementation = scaled_elsewhere
    with pytest.raises(causal_model.EngineRefusal, match=r"log-probabilities differ .* expected at most 0\.0001:"):
        model.prove(tolerance=1e-4)
