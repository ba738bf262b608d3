"""The frozen base as `[trainer]` asks for it: loaded, compared with transformers, cut over the ranks."""

from pathlib import Path
from typing import cast

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from collector.errors import UserError
from trainer.config import TrainerConfig
from trainer.policy import Policy
from trainer.ranks import Ranks


def load_policy(folder: Path, config: TrainerConfig) -> tuple[Policy, Ranks]:
    """The policy over a model folder, and this process among those that torchrun started.

    UserError where the base cannot be loaded or would be trained wrongly, on every rank where it is so on one.
    """
    torch.set_num_threads(config.threads)
    device = device_of(config)
    ranks = Ranks.join(device)
    policy, refusal = None, None
    try:
        policy = _proved(folder, config, device)
    except UserError as error:
        refusal = str(error)
    refusals = [each for each in ranks.collect([refusal]) if each is not None]
    if policy is None or refusals:
        raise UserError(refusals[0])
    policy.shard(ranks)
    return policy, ranks


def device_of(config: TrainerConfig) -> str:
    """As configured, else a GPU where there is one."""
    return config.device or ("cuda" if torch.cuda.is_available() else "cpu")


def _proved(folder: Path, config: TrainerConfig, device: str) -> Policy:
    dtype = cast(torch.dtype, getattr(torch, config.dtype))
    transformers_logging.disable_progress_bar()
    try:
        network = cast(
            PreTrainedModel,
            AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, attn_implementation="sdpa", local_files_only=True
            ),
        )
        cast(torch.nn.Module, network).to(device)
    # transformers says with a ValueError what it has no model for, torch with a RuntimeError or, where it was built
    # without CUDA, an AssertionError that a device is missing.
    except (OSError, ValueError, RuntimeError, AssertionError) as error:
        cause = str(error).partition("\n")[0]
        raise UserError(f"{folder} cannot be loaded on {device} for training: {cause}") from error
    policy = Policy(network, checkpointing=config.checkpointing, mode=config.backward_mode)
    policy.prove()
    return policy
