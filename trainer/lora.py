"""The adapters being trained: their low-rank pairs, and the hooks that add each to its own tokens of a packed pass."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast
from weakref import WeakSet

import torch
from torch import Tensor
from transformers import PreTrainedModel

from collector.errors import UserError
from trainer.linear_modules import linear_modules
from trainer.packing import AdapterSlice


class Pair(NamedTuple):
    """What an adapter adds to one linear module: scaling · (x Aᵀ) Bᵀ. Float32 masters, trained."""

    down_R_I: torch.nn.Parameter
    up_O_R: torch.nn.Parameter


class TrainedAdapter(NamedTuple):
    """One adapter: its rank, its scaling, and its pairs by module name."""

    name: str
    rank: int
    alpha: float
    pairs: Mapping[str, Pair]

    @property
    def scaling(self) -> float:
        """What the low-rank product is multiplied by, as in peft: alpha / r."""
        return self.alpha / self.rank

    def parameters(self) -> list[torch.nn.Parameter]:
        """All of them, in the order of the modules."""
        return [parameter for pair in self.pairs.values() for parameter in pair]


def new_adapter(
    network: PreTrainedModel,
    name: str,
    *,
    rank: int,
    alpha: float,
    targets: Sequence[str],
    seed: int,
    dtype: torch.dtype = torch.float32,
) -> TrainedAdapter:
    """An adapter that changes nothing yet: A as peft draws it (Kaiming uniform with a = √5), B zero."""
    generator = torch.Generator().manual_seed(seed)
    pairs: dict[str, Pair] = {}
    for module_name, module in linear_modules(network).items():
        if module_name.rpartition(".")[2] in targets:
            bound = 1 / math.sqrt(module.in_features)
            down = torch.empty(rank, module.in_features, dtype=dtype).uniform_(-bound, bound, generator=generator)
            up = torch.zeros(module.out_features, rank, dtype=dtype)
            device = module.weight.device
            pairs[module_name] = Pair(torch.nn.Parameter(down.to(device)), torch.nn.Parameter(up.to(device)))
    if not pairs:
        raise UserError(f"adapter {name}: no linear module of this model is named {', '.join(targets)}")
    return TrainedAdapter(name, rank, float(alpha), pairs)


def power_of_two(largest: float) -> float:
    """What brings a gradient near 1 and is undone exactly; 1 for one that is 0 or not finite."""
    exponent = -math.frexp(largest)[1] if 0 < largest < math.inf else 0
    return math.ldexp(1.0, max(-64, min(64, exponent)))


class _CastUnscaled(torch.autograd.Function):
    """A master in float16, whose gradient comes back in the master's precision without the scale of the pass."""

    @staticmethod
    # Any: autograd's context carries whatever is put on it.
    def forward(ctx: Any, master: Tensor, dtype: torch.dtype, scales: Mapping[str, float], name: str) -> Tensor:
        ctx.scales, ctx.name, ctx.master_dtype = scales, name, master.dtype
        return master.to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return grads[0].to(ctx.master_dtype) / ctx.scales.get(ctx.name, 1.0), None, None, None


_HOOKED: WeakSet[torch.nn.Module] = WeakSet()
"""Networks that have hooks: a second set would add every adapter twice."""


class LoraHooks:
    """Adds the adapters of a packed forward pass to a frozen network. One pass at a time."""

    def __init__(self, network: PreTrainedModel) -> None:
        if network in _HOOKED:
            raise ValueError("this network has a policy already, expected one: load the base anew or share the policy")
        _HOOKED.add(network)
        self._modules = linear_modules(network)
        self._hooked: set[str] = set()
        self._active: list[tuple[int, int, TrainedAdapter | None]] = []
        self.gradient_scales: dict[str, float] = {}
        """By adapter: what gradients of a float16 pass were multiplied by where they began; taken off at a master."""

    def activate(self, slices: Sequence[AdapterSlice], adapters: Mapping[str, TrainedAdapter]) -> None:
        """Says which tokens of the coming passes, forward and recomputed, belong to which adapter."""
        self._active = [
            (start, end, None if name is None else self._known(adapters, name)) for name, start, end in slices
        ]

    def _known(self, adapters: Mapping[str, TrainedAdapter], name: str) -> TrainedAdapter:
        adapter = adapters.get(name)
        if adapter is None:
            raise ValueError(f"rows of adapter {name!r}, expected some of {', '.join(adapters) or 'none'}")
        for module in adapter.pairs:
            if module not in self._hooked:
                self._hooked.add(module)
                self._modules[module].register_forward_hook(self._hook(module))
        return adapter

    # Any: torch's hook signature.
    def _hook(self, module: str) -> Any:
        def add_adapters(_: torch.nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor | None:
            parts = [self._delta(module, inputs[0], output, *active) for active in self._active]
            if all(part is None for part in parts):
                return None
            whole = [
                output.new_zeros((*output.shape[:-2], end - start, output.shape[-1])) if part is None else part
                for part, (start, end, _) in zip(parts, self._active, strict=True)
            ]
            return output + (whole[0] if len(whole) == 1 else torch.cat(whole, dim=-2))

        return add_adapters

    def _delta(
        self, module: str, given: Tensor, output: Tensor, start: int, end: int, adapter: TrainedAdapter | None
    ) -> Tensor | None:
        pair = None if adapter is None else adapter.pairs.get(module)
        if adapter is None or pair is None:
            return None
        low = torch.nn.functional.linear(given[..., start:end, :], self._cast(adapter, pair.down_R_I, given.dtype))
        return torch.nn.functional.linear(low, self._cast(adapter, pair.up_O_R, output.dtype)) * adapter.scaling

    def _cast(self, adapter: TrainedAdapter, master: torch.nn.Parameter, dtype: torch.dtype) -> Tensor:
        if dtype != torch.float16:
            return master.to(dtype)
        return cast(Tensor, _CastUnscaled.apply(master, dtype, self.gradient_scales, adapter.name))
