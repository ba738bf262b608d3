"""The most bytes that tensors made inside a block held at one time."""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the storage of every tensor that an operation returns, until nothing holds it any more."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._upper = 0  # what was made since the dead were last counted out, and what lived then
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returned = func(*args, **(kwargs or {}))
        given = {
            leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        }
        for leaf in tree_leaves(returned):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                if storage._cdata not in given:
                    self._live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
                    self._upper += storage.nbytes()
        if self._upper > self.peak:
            self._live = {key: (ref, size) for key, (ref, size) in self._live.items() if not ref.expired()}
            self._upper = sum(size for _, size in self._live.values())
            self.peak = max(self.peak, self._upper)
        return returned
