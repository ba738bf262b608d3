"""Reading an adapter: what fits is read, what does not is refused with what was found and expected."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from trainer.engine.adapter_file import read_adapter
from trainer.engine.engine_refusal import EngineRefusal

SHAPES = {
    "model.layers.0.self_attn.q_proj": (6, 4),
    "model.layers.0.mlp.down_proj": (4, 8),
    "model.layers.1.self_attn.q_proj": (6, 4),
}
CONFIG = {
    "peft_type": "LORA",
    "r": 2,
    "lora_alpha": 6,
    "target_modules": ["q_proj"],
    "bias": "none",
    "use_dora": False,
    "rank_pattern": {},
    "lora_dropout": 0.1,
    "qalora_group_size": 16,
    "base_model_name_or_path": "somewhere",
}


def write(folder: Path, *, names: tuple[str, ...] | None = None, **changes: Any) -> str:
    names = names or tuple(name for name in SHAPES if name.endswith("q_proj"))
    tensors: dict[str, torch.Tensor] = {}
    for name in names:
        outputs, inputs = SHAPES[name]
        tensors[f"base_model.model.{name}.lora_A.weight"] = torch.ones(2, inputs)
        tensors[f"base_model.model.{name}.lora_B.weight"] = torch.ones(outputs, 2)
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({**CONFIG, **changes}))
    return str(folder)


def test_pairs_and_scaling_are_read(tmp_path: Path) -> None:
    pairs = read_adapter(write(tmp_path), SHAPES)
    assert set(pairs) == {"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"}
    pair = pairs["model.layers.0.self_attn.q_proj"]
    assert pair.down_R_I.shape == (2, 4)
    assert pair.up_O_R.shape == (6, 2)
    assert pair.scaling == 3.0


def test_rank_stabilised_scaling_divides_by_the_root(tmp_path: Path) -> None:
    pairs = read_adapter(write(tmp_path, use_rslora=True), SHAPES)
    assert pairs["model.layers.0.self_attn.q_proj"].scaling == pytest.approx(6 / 2**0.5)


def test_a_pattern_and_a_choice_of_layers_select_modules(tmp_path: Path) -> None:
    one = ("model.layers.1.self_attn.q_proj",)
    by_pattern = read_adapter(write(tmp_path, names=one, target_modules=r".*\.1\..*q_proj"), SHAPES)
    by_layer = read_adapter(write(tmp_path, names=one, layers_to_transform=[1]), SHAPES)
    everything = read_adapter(write(tmp_path, names=tuple(SHAPES), target_modules="all-linear"), SHAPES)
    assert set(by_pattern) == set(by_layer) == set(one)
    assert set(everything) == set(SHAPES)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"use_dora": True}, "use_dora is True"),
        ({"rank_pattern": {"q_proj": 4}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 4}}, "alpha_pattern"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({"something_new": 3}, "something_new is 3"),
        ({"init_lora_weights": "pissa"}, "pissa"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"r": 0}, "r is 0"),
        ({"r": 3}, r"has the shape \(2, 4\), expected \(3, 4\)"),
        ({"target_modules": ["lm_head"]}, "'lm_head' is no linear module"),
        ({"target_modules": []}, r"target_modules is \[\]"),
        ({"target_modules": "nothing"}, "matches no linear module"),
        ({"target_modules": ["q_proj", "down_proj"]}, "no tensor .*down_proj.lora_A"),
        ({"exclude_modules": ["x"]}, "exclude_modules"),
        ({"layers_to_transform": [0]}, "found 2 tensors that no target module"),
        ({"layers_to_transform": [0], "layers_pattern": "layers"}, "layers_pattern"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(EngineRefusal, match=says):
        read_adapter(write(tmp_path, **changes), SHAPES)


def test_a_tensor_of_no_target_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, names=tuple(SHAPES))
    with pytest.raises(EngineRefusal, match=r"found 2 tensors that no target module.*down_proj"):
        read_adapter(folder, SHAPES)


def test_a_missing_half_of_a_pair_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    tensors = load_file(tmp_path / "adapter_model.safetensors")
    del tensors["base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"]
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    with pytest.raises(EngineRefusal, match=r"no tensor .*layers\.1.*lora_B"):
        read_adapter(folder, SHAPES)


def test_pickled_weights_are_never_read(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (tmp_path / "adapter_model.safetensors").rename(tmp_path / "adapter_model.bin")
    with pytest.raises(EngineRefusal, match="pickled weights are never read"):
        read_adapter(folder, SHAPES)


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    with pytest.raises(EngineRefusal, match="cannot be read"):
        read_adapter(folder, SHAPES)
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(EngineRefusal, match="cannot be read"):
        read_adapter(folder, SHAPES)


def test_a_folder_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineRefusal, match=r"adapter_config.json: not found"):
        read_adapter(str(tmp_path), SHAPES)
