"""The loaded adapters, and what they add to the linear modules of a step."""

from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from trainer.engine.adapter_file import LoraPair, Shapes
from trainer.engine.engine_refusal import EngineRefusal
from trainer.linear_modules import linear_modules

BASE_NAMESPACE = 0
"""Prefix-cache namespace of the base model; an adapter's is the number of its load."""


class Adapter(NamedTuple):
    """One load of an adapter. Loading the same name again makes another one."""

    name: str
    path: str
    namespace: int
    pairs: dict[str, LoraPair]


class Slice(NamedTuple):
    """Tokens of a step that one adapter applies to."""

    start: int
    end: int
    adapter: Adapter


class AdapterBank:
    """Adds the low-rank parts of several adapters to one forward pass, each to its own tokens."""

    def __init__(self, network: PreTrainedModel) -> None:
        self._modules = linear_modules(network)
        self._hooked: set[str] = set()
        self._loads = BASE_NAMESPACE
        self.loaded: dict[str, Adapter] = {}
        """By name."""
        self.active: list[Slice] = []
        """Which tokens of the step now computed belong to which adapter."""
        self._leaving: set[str] = set()

    @property
    def shapes(self) -> Shapes:
        """Linear modules that can carry an adapter."""
        return {name: (module.out_features, module.in_features) for name, module in self._modules.items()}

    def add(self, name: str, path: str, pairs: dict[str, LoraPair]) -> Adapter:
        """Makes an adapter usable from the next step on."""
        assert name not in self.loaded
        self._loads += 1
        placed = {module: self._place(module, pair) for module, pair in pairs.items()}
        adapter = self.loaded[name] = Adapter(name, path, self._loads, placed)
        for module in pairs:
            if module not in self._hooked:
                self._hooked.add(module)
                self._modules[module].register_forward_hook(self._hook(module))
        return adapter

    def find(self, name: str) -> Adapter:
        """The adapter that new requests of this name get."""
        if name in self._leaving:
            raise EngineRefusal(f"LoRA adapter {name!r} is being unloaded; expected a loaded one{self._listed()}")
        if name not in self.loaded:
            raise EngineRefusal(f"LoRA adapter {name!r} is not loaded; expected a loaded one{self._listed()}")
        return self.loaded[name]

    def retire(self, name: str) -> Adapter:
        """Refuses the name to new requests; `remove` follows once no request uses it."""
        adapter = self.find(name)
        self._leaving.add(name)
        return adapter

    def remove(self, name: str) -> None:
        """Forgets an adapter that no request uses."""
        self._leaving.discard(name)
        del self.loaded[name]

    def _listed(self) -> str:
        names = ", ".join(sorted(self.loaded.keys() - self._leaving))
        return f": {names}" if names else ", and none is"

    def _place(self, module: str, pair: LoraPair) -> LoraPair:
        weight = self._modules[module].weight
        return LoraPair(pair.down_R_I.to(weight), pair.up_O_R.to(weight), pair.scaling)

    def _hook(self, module: str) -> Any:
        def add_adapters(_: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
            for start, end, adapter in self.active:
                pair = adapter.pairs.get(module)
                if pair is not None:
                    low = torch.nn.functional.linear(inputs[0][..., start:end, :], pair.down_R_I)
                    output[..., start:end, :] += torch.nn.functional.linear(low, pair.up_O_R) * pair.scaling

        return add_adapters
