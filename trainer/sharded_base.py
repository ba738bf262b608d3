"""The frozen base cut over ranks by FSDP2: each holds its part of every layer and gathers a layer when it computes it.

The adapters are whole on every rank. Every rank makes the same passes, so that all take part in each gathering.
"""

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from collector.errors import UserError
from trainer.ranks import Ranks
from trainer.scorer import Scorer


def shard_base(scorer: Scorer, ranks: Ranks) -> None:
    """Cuts every decoder layer, and embedding, norm and head as one more, over the ranks."""
    if ranks.size == 1:
        return
    network = scorer.network
    layers = getattr(network.base_model, "layers", None)
    if not isinstance(layers, torch.nn.ModuleList):
        raise UserError(f"{type(network).__name__} has no list of layers to cut over ranks; train it in one process")
    mesh = init_device_mesh(scorer.device.type, (ranks.size,))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(scorer, mesh=mesh)
    network.get_input_embeddings().register_forward_hook(_with_gradient)


def _with_gradient(_: torch.nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
    """Layers below a rank's first adapter would not be gathered in its backward pass, and other ranks would wait."""
    del inputs
    return output.requires_grad_() if torch.is_grad_enabled() else output
