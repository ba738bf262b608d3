"""Rows that share prefixes, and each of them alone through peft: what every kind of pass is compared with."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from trainer.lora import TrainedAdapter, new_adapter
from trainer.rows import SampledRun, TrainingRow
from trainer.tiny_model import Family

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
FAMILIES: tuple[Family, ...] = ("llama", "qwen2", "qwen3")
Grads = dict[str, torch.Tensor]


def network(folder: Path, dtype: torch.dtype) -> Any:
    """The model as transformers loads it; in float64 its norms too, which transformers computes in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
    if dtype == torch.float64:
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.forward = partial(_rms_norm, module)
    return model


def _rms_norm(module: Any, hidden: torch.Tensor) -> torch.Tensor:
    return torch.rms_norm(hidden, module.weight.shape, module.weight, eps=1e-6)


def adapter(model: Any, name: str, rank: int, dtype: torch.dtype) -> TrainedAdapter:
    """An adapter both halves of which are random."""
    made = new_adapter(model, name, rank=rank, alpha=2.0 * rank, targets=TARGETS, seed=rank, dtype=dtype)
    generator = torch.Generator().manual_seed(100 + rank)
    with torch.no_grad():
        for pair in made.pairs.values():
            pair.up_O_R.normal_(0, 0.05, generator=generator)
    return made


def row(ids: list[int], spans: list[tuple[int, int]], name: str | None, temperature: float = 1.0) -> TrainingRow:
    runs = tuple(
        SampledRun(f"t{start}", start, end, np.full(end - start, -1.0, dtype=np.float32), temperature, 1)
        for start, end in spans
    )
    return TrainingRow("s", name, np.array(ids, dtype=np.int32), runs)


def rows(name: str | None, seed: int) -> list[TrainingRow]:
    """Six rows that share prefixes of several depths: twins, a row inside another, a fork in mid-row, a stranger."""
    random = np.random.default_rng(seed)
    trunk = random.integers(0, 250, 40).tolist()
    left, right = random.integers(0, 250, 15).tolist(), random.integers(0, 250, 9).tolist()
    return [
        row([*trunk, *left], [(30, 40), (44, 55)], name),
        row([*trunk, *right], [(42, 49)], name, temperature=0.7),
        row([*trunk[:33]], [(31, 33)], name),
        row([*trunk, *left], [(40, 55)], name),
        row([*trunk, *left[:5], *right], [(45, 54)], name),
        row(random.integers(0, 250, 12).tolist(), [(1, 4), (6, 12)], name, temperature=1.5),
    ]


def alone(
    folder: Path, made: TrainedAdapter | None, given: list[TrainingRow], dtype: torch.dtype
) -> tuple[list[torch.Tensor], Grads]:
    """Each row through peft on its own: log-probabilities of its trained tokens, and the gradient of their sum."""
    model = network(folder, dtype)
    if made is not None:
        config = LoraConfig(
            r=made.rank, lora_alpha=int(made.alpha), target_modules=list(TARGETS), task_type="CAUSAL_LM"
        )
        model = get_peft_model(model, config).to(dtype)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                for part, half in (("lora_A", 0), ("lora_B", 1)):
                    if part in name:
                        weight.copy_(made.pairs[name.removeprefix("base_model.model.").partition(f".{part}")[0]][half])
    found: list[torch.Tensor] = []
    for each in given:
        logits = model(torch.tensor([each.ids.tolist()]), use_cache=False).logits[0]
        for run in each.runs:
            logs = (logits[run.start - 1 : run.end - 1] / run.temperature).log_softmax(-1)
            found.append(logs.gather(1, torch.tensor(each.ids[run.start : run.end].tolist())[:, None])[:, 0])
    if made is not None:
        (torch.cat(found) * weights(sum(len(f) for f in found), dtype)).sum().backward()
    grads = {n: w.grad for n, w in model.named_parameters() if "lora_" in n and w.grad is not None}
    return found, grads


def weights(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Unequal weights of the tokens, so that a gradient of the wrong token shows."""
    return torch.linspace(-1, 2, count, dtype=dtype)


def gradient(made: TrainedAdapter, grads: Grads) -> tuple[torch.Tensor, torch.Tensor]:
    """Ours and peft's, flat, in one order."""
    ours, theirs = [], []
    for module, pair in made.pairs.items():
        for part, half in (("lora_A", pair.down_R_I), ("lora_B", pair.up_O_R)):
            assert half.grad is not None
            ours.append(half.grad.flatten())
            theirs.append(grads[f"base_model.model.{module}.{part}.default.weight"].flatten())
    return torch.cat(ours), torch.cat(theirs)
