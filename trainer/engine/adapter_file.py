"""A LoRA adapter on disk, in peft's format: adapter_config.json and adapter_model.safetensors, read strictly."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file  # pyright: ignore[reportUnknownVariableType]

from trainer.engine.engine_refusal import EngineRefusal

PREFIX = "base_model.model."
"""What peft puts before the module's name."""
NEUTRAL_FIELDS = frozenset(
    """auto_mapping base_model_name_or_path corda_config ensure_weight_tying eva_config exclude_modules inference_mode
    init_lora_weights layers_pattern layers_to_transform loftq_config lora_alpha lora_dropout megatron_config
    megatron_core peft_type peft_version qalora_group_size r revision runtime_config target_modules task_type
    use_rslora""".split()  # noqa: SIM905
)
"""Fields of adapter_config.json that either are handled here or change nothing at inference; any other must be off."""


class LoraPair(NamedTuple):
    """What an adapter adds to one linear module: scaling · (x Aᵀ) Bᵀ."""

    down_R_I: torch.Tensor
    up_O_R: torch.Tensor
    scaling: float


Shapes = dict[str, tuple[int, int]]
"""Name of each linear module that can carry an adapter, to its (out, in) features."""


def read_adapter(folder: str, shapes: Shapes) -> dict[str, LoraPair]:
    """The pairs of an adapter by module name; whatever does not fit the model or this engine is refused."""
    path = Path(folder).expanduser()
    config = _read_config(path)
    targets = _targets(path, config, shapes)
    weights = _read_weights(path)
    scaling = _scaling(config)
    pairs = {name: _pair(path, name, weights, shapes, int(config["r"]), scaling) for name in targets}
    left = sorted(weights)
    if left:
        raise EngineRefusal(
            f"{path}: found {len(left)} tensors that no target module of this model takes, first {left[0]!r}; "
            "expected lora_A and lora_B of the target modules only"
        )
    return pairs


def _read_config(path: Path) -> dict[str, Any]:
    file = path / "adapter_config.json"
    try:
        config = cast("dict[str, Any]", json.loads(file.read_text()))
    except FileNotFoundError as error:
        raise EngineRefusal(f"{file}: not found, expected the folder of a peft LoRA adapter") from error
    except (OSError, ValueError) as error:
        raise EngineRefusal(f"{file}: cannot be read: {error}") from error
    if config.get("peft_type") != "LORA":
        raise EngineRefusal(f"{file}: peft_type is {config.get('peft_type')!r}, expected 'LORA'")
    rank = config.get("r")
    if not isinstance(rank, int) or rank < 1:
        raise EngineRefusal(f"{file}: r is {rank!r}, expected a positive integer")
    for name, value in config.items():
        off = value is None or value is False or value in ({}, [], "none")
        if name not in NEUTRAL_FIELDS and not off:
            raise EngineRefusal(f"{file}: {name} is {value!r}, which this engine does not compute; expected it off")
    start = config.get("init_lora_weights", True)
    if isinstance(start, str) and start not in ("gaussian", "eva", "orthogonal"):
        raise EngineRefusal(
            f"{file}: init_lora_weights is {start!r}, which changes the base weights; convert the adapter"
        )
    return config


def _scaling(config: dict[str, Any]) -> float:
    rank = int(config["r"])
    alpha = float(config.get("lora_alpha", 8))
    return alpha / (rank**0.5 if config.get("use_rslora") else rank)


def _targets(path: Path, config: dict[str, Any], shapes: Shapes) -> list[str]:
    wanted = config.get("target_modules")
    if isinstance(wanted, list) and wanted:
        names = [str(name) for name in cast("list[Any]", wanted)]
        for target in names:
            if not any(_is_suffix(target, name) for name in shapes):
                raise EngineRefusal(f"{path}: target module {target!r} is no linear module of this model's layers")
        found = [name for name in shapes if any(_is_suffix(target, name) for target in names)]
    elif wanted == "all-linear":
        found = list(shapes)
    elif isinstance(wanted, str) and wanted:
        found = [name for name in shapes if re.fullmatch(wanted, name)]
    else:
        raise EngineRefusal(f"{path}: target_modules is {wanted!r}, expected a list of module names")
    if not found:
        raise EngineRefusal(f"{path}: target_modules {wanted!r} matches no linear module of this model's layers")
    return _limited(path, config, found)


def _limited(path: Path, config: dict[str, Any], names: list[str]) -> list[str]:
    excluded = config.get("exclude_modules")
    if excluded:
        raise EngineRefusal(
            f"{path}: exclude_modules is {excluded!r}, which this engine does not read; expected it off"
        )
    layers = config.get("layers_to_transform")
    if layers is None:
        return names
    if config.get("layers_pattern"):
        raise EngineRefusal(f"{path}: layers_pattern is set, which this engine does not read; expected it off")
    chosen = {layers} if isinstance(layers, int) else set(cast("list[int]", layers))
    return [name for name in names if chosen & {int(part) for part in name.split(".") if part.isdigit()}]


def _is_suffix(target: str, name: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    file = path / "adapter_model.safetensors"
    if not file.is_file():
        raise EngineRefusal(f"{file}: not found; expected safetensors (pickled weights are never read)")
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise EngineRefusal(f"{file}: cannot be read: {error}") from error


def _pair(
    path: Path, name: str, weights: dict[str, torch.Tensor], shapes: Shapes, rank: int, scaling: float
) -> LoraPair:
    outputs, inputs = shapes[name]
    found: list[torch.Tensor] = []
    for part, expected in (("lora_A", (rank, inputs)), ("lora_B", (outputs, rank))):
        key = f"{PREFIX}{name}.{part}.weight"
        tensor = weights.pop(key, None)
        if tensor is None:
            raise EngineRefusal(f"{path}: no tensor {key!r} found, expected one for each target module")
        if tuple(tensor.shape) != expected:
            raise EngineRefusal(f"{path}: {key} has the shape {tuple(tensor.shape)}, expected {expected}")
        found.append(tensor)
    return LoraPair(found[0], found[1], scaling)
