"""The frozen base as `[trainer]` asks for it: loaded, compared with transformers, cut over the ranks."""

from pathlib import Path
from typing import cast

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from trainer.config import TrainerConfig
from trainer.policy import Policy
from trainer.ranks import Ranks


def load_policy(folder: Path, config: TrainerConfig) -> tuple[Policy, Ranks]:
    """The policy over a model folder, and this process among those that torchrun started."""
    torch.set_num_threads(config.threads)
    device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
    ranks = Ranks.join(device)
    dtype = cast(torch.dtype, getattr(torch, config.dtype))
    network = cast(PreTrainedModel, AutoModelForCausalLM.from_pretrained(folder, dtype=dtype))
    cast(torch.nn.Module, network).to(device)
    policy = Policy(network, checkpointing=config.checkpointing, mode=config.backward_mode)
    policy.prove()
    policy.shard(ranks)
    return policy, ranks
