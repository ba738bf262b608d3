"""The processes that train together under torchrun: what each computes, and what they sum before an update.

Every rank knows all rows of a step and cuts them into the same microbatches; it computes its share of them. All take
part in the same passes in the same order, since each pass of a sharded base gathers its weights from all of them.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

import torch
import torch.distributed as distributed
from torch import Tensor

from trainer.lora import TrainedAdapter

T = TypeVar("T")


class Share(NamedTuple):
    """One pass of this rank."""

    microbatch: int
    """Which of the step's microbatches."""
    counted: bool
    """False where the rank only keeps the others company: its losses are multiplied by zero, its numbers dropped."""


class Ranks(NamedTuple):
    """This process among those that train together; alone where nothing else is said."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str) -> "Ranks":
        """Meets the other processes that torchrun started; alone without torchrun."""
        if not distributed.is_torchelastic_launched():
            return cls()
        if not distributed.is_initialized():
            on_gpu = torch.device(device).type == "cuda"
            if on_gpu:
                local = distributed.get_node_local_rank()  # pyright: ignore[reportPrivateImportUsage]
                torch.cuda.set_device(local)
            distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def is_writer(self) -> bool:
        """Whether this rank writes records and checkpoints: one does."""
        return self.rank == 0

    def share(self, microbatches: int) -> list[Share]:
        """This rank's passes over a step's microbatches: as many on every rank, each microbatch counted once."""
        passes = -(-microbatches // self.size)
        mine = [step * self.size + self.rank for step in range(passes)]
        return [Share(min(index, microbatches - 1), index < microbatches) for index in mine]

    def collect(self, mine: Sequence[T]) -> list[T]:
        """What the ranks made of their counted shares, in the order of the microbatches, on every rank."""
        if self.size == 1:
            return list(mine)
        gathered: list[Any] = [None] * self.size  # Any: each place is filled with a rank's list
        distributed.all_gather_object(gathered, list(mine))
        return [of_rank[step] for step in range(max(map(len, gathered))) for of_rank in gathered if step < len(of_rank)]

    def sum_counts(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Counts by name, each summed over the ranks; a name that only another rank has is there too."""
        total: dict[str, int] = {}
        for of_rank in self.collect([dict(counts)]):
            for name, count in of_rank.items():
                total[name] = total.get(name, 0) + count
        return total

    def sum_gradients(self, adapters: Iterable[TrainedAdapter]) -> None:
        """Gives every rank the sum of all ranks' gradients; a parameter without one on any rank keeps none.

        Every rank passes the same adapters in the same order, whichever of them its own rows touched.
        """
        parameters = [parameter for adapter in adapters for parameter in adapter.parameters()]
        if self.size == 1 or not parameters:
            return
        device = parameters[0].device
        present = torch.tensor([parameter.grad is not None for parameter in parameters], device=device).int()
        _all_reduce(present)
        counts = cast("list[int]", present.tolist())
        used = [parameter for parameter, ranks in zip(parameters, counts, strict=True) if ranks]
        if not used:
            return
        flat = torch.cat([_gradient(parameter).flatten() for parameter in used])
        _all_reduce(flat)
        start = 0
        for parameter in used:
            end = start + parameter.numel()
            parameter.grad = flat[start:end].view_as(parameter).clone()
            start = end


def end_process(code: int) -> NoReturn:
    """Ends a process that took part, at once: nothing that is registered for the interpreter's own end runs.

    The threads of a gloo group live as long as a sharded model names the group, `destroy_process_group` or not. One
    that lets go of a tensor of Python's while the interpreter ends aborts the process, whose work was done (source:
    github.com/pytorch/pytorch/pull/179291).
    """
    for stream in (sys.stdout, sys.stderr):
        # A reader that is gone is no longer told.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _gradient(parameter: torch.nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _all_reduce(tensor: Tensor) -> None:
    distributed.all_reduce(tensor)  # pyright: ignore[reportUnknownMemberType]
