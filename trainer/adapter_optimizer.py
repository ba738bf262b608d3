"""One adapter's optimizer: AdamW with its own learning rate, schedule, clipping and step count."""

import math
from typing import NamedTuple

import torch

from trainer.lora import TrainedAdapter
from trainer.optimizer_config import OptimizerConfig

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps of each parameter."""


class Updated(NamedTuple):
    """What one update did."""

    grad_norm: float
    """L2 norm before clipping; not finite where the update was left out."""
    lr: float
    applied: bool
    """False where the gradient is not finite: neither weights nor optimizer state moved."""


class AdapterOptimizer:
    """The optimizer state of one adapter."""

    def __init__(self, adapter: TrainedAdapter, config: OptimizerConfig) -> None:
        self.adapter = adapter
        self.config = config
        self.step = 0
        """Optimizer steps taken."""
        self._adamw = torch.optim.AdamW(
            adapter.parameters(),
            lr=config.lr,
            betas=(config.beta1, config.beta2),
            eps=config.eps,
            weight_decay=config.weight_decay,
            foreach=True,
        )

    def lr(self, step: int) -> float:
        """Learning rate of the step with this number, from 1."""
        config = self.config
        if step <= config.warmup_steps:
            return config.lr * step / config.warmup_steps
        if config.schedule == "constant":
            return config.lr
        span = max(1, config.total_steps - config.warmup_steps)
        done = min(1.0, (step - config.warmup_steps) / span)
        return config.lr * 0.5 * (1 + math.cos(math.pi * done))

    def update(self) -> Updated:
        """One step from the gradients that were accumulated; they are cleared whatever comes of it."""
        parameters = self.adapter.parameters()
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads).item() if grads else 0.0
        lr = self.lr(self.step + 1)
        applied = math.isfinite(norm) and bool(grads)
        if applied:
            if self.config.max_grad_norm is not None:
                torch.nn.utils.clip_grads_with_norm_(parameters, self.config.max_grad_norm, torch.tensor(norm))
            for group in self._adamw.param_groups:
                group["lr"] = lr
            self._adamw.step()
            self.step += 1
        for parameter in parameters:
            parameter.grad = None
        return Updated(norm, lr, applied)

    def state(self) -> dict[str, torch.Tensor]:
        """Weights and moments by name, to be written and given back to `restore`: an exact resume."""
        tensors: dict[str, torch.Tensor] = {"step": torch.tensor(self.step)}
        for name, parameter in self._named():
            tensors[name] = parameter.detach()
            for key, value in self._adamw.state.get(parameter, {}).items():
                tensors[f"{name}.{key}"] = torch.as_tensor(value)
        return tensors

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Takes back what `state` gave; where a tensor is missing, left over or misshapen nothing is changed."""
        self._refuse_other(tensors)
        with torch.no_grad():
            for name, parameter in self._named():
                parameter.copy_(tensors[name])
                moments = {key: tensors[f"{name}.{key}"] for key in _MOMENTS if f"{name}.{key}" in tensors}
                self._adamw.state.pop(parameter, None)
                if moments:
                    self._adamw.state[parameter] = {
                        key: value.clone().to("cpu" if key == "step" else parameter.device)
                        for key, value in moments.items()
                    }
        self.step = int(tensors["step"])

    def _refuse_other(self, tensors: dict[str, torch.Tensor]) -> None:
        left = set(tensors) - {"step"}
        for name, parameter in self._named():
            if name not in tensors or tensors[name].shape != parameter.shape:
                raise ValueError(f"no tensor {name!r} of shape {tuple(parameter.shape)} in the state, expected one")
            left -= {name, *(f"{name}.{key}" for key in _MOMENTS)}
        if left:
            raise ValueError(f"{len(left)} tensors of the state belong to nothing here, first {min(left)!r}")
        if "step" not in tensors:
            raise ValueError("no tensor 'step' in the state, expected the optimizer's step")

    def _named(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [
            (f"{module}.{part}", parameter)
            for module, pair in self.adapter.pairs.items()
            for part, parameter in (("lora_A", pair.down_R_I), ("lora_B", pair.up_O_R))
        ]
