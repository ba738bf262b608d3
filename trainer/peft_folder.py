"""A trained adapter as peft writes one: adapter_config.json and adapter_model.safetensors."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from transformers import PreTrainedModel

from collector.errors import UserError
from trainer.engine.adapter_file import read_adapter
from trainer.engine.engine_refusal import EngineRefusal
from trainer.linear_modules import linear_modules
from trainer.lora import Pair, TrainedAdapter


def write_peft(folder: Path, adapter: TrainedAdapter, *, base_model: str, dtype: torch.dtype) -> None:
    """Writes both files into an existing folder; weights are cast to `dtype`, which is what an engine will serve."""
    tensors: dict[str, torch.Tensor] = {}
    for module, pair in adapter.pairs.items():
        for part, half in (("lora_A", pair.down_R_I), ("lora_B", pair.up_O_R)):
            name = f"base_model.model.{module}.{part}.weight"
            tensors[name] = half.detach().to("cpu", dtype).contiguous()
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    text = json.dumps(_config(adapter, base_model), indent=2, sort_keys=True)
    (folder / "adapter_config.json").write_text(text, encoding="utf-8")


def read_peft(network: PreTrainedModel, folder: Path, name: str) -> TrainedAdapter:
    """The adapter in a folder, as an engine reads it: the cast weights, in float32, without gradients."""
    modules = linear_modules(network)
    try:
        found = read_adapter(
            str(folder), {name: (each.out_features, each.in_features) for name, each in modules.items()}
        )
    except EngineRefusal as refusal:
        raise UserError(str(refusal)) from refusal
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    if config.get("use_rslora"):
        raise UserError(f"{folder}: use_rslora is on, expected it off: the trainer scales by alpha / r")
    pairs = {
        module: Pair(*(_frozen(half, modules[module].weight.device) for half in (pair.down_R_I, pair.up_O_R)))
        for module, pair in found.items()
    }
    return TrainedAdapter(name, config["r"], float(config.get("lora_alpha", 8)), pairs)


def _frozen(half: torch.Tensor, device: torch.device) -> torch.nn.Parameter:
    return torch.nn.Parameter(half.to(device, torch.float32), requires_grad=False)


# Any: peft's configuration is JSON.
def _config(adapter: TrainedAdapter, base_model: str) -> dict[str, Any]:
    alpha = int(adapter.alpha) if adapter.alpha.is_integer() else adapter.alpha
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": adapter.rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({module.rpartition(".")[2] for module in adapter.pairs}),
        "inference_mode": True,
    }
