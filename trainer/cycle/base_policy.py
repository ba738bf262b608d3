"""The frozen base model, loaded for training and proved to compute what transformers computes."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from collector.errors import UserError
from trainer.config import TrainerConfig
from trainer.policy import Policy


def load_policy(model: Path, config: TrainerConfig) -> Policy:
    """The base on its device; UserError where it cannot be loaded, or would be trained wrongly."""
    torch.set_num_threads(config.threads)
    device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        network = AutoModelForCausalLM.from_pretrained(
            model, dtype=getattr(torch, config.dtype), attn_implementation="sdpa", local_files_only=True
        )
        assert isinstance(network, PreTrainedModel)
        placed = network.to(device)  # pyright: ignore[reportArgumentType]
    # transformers says with a ValueError what it has no model for, torch with a RuntimeError that a device is missing.
    except (OSError, ValueError, RuntimeError) as error:
        cause = str(error).partition("\n")[0]
        raise UserError(f"{model} cannot be loaded on {device} for training: {cause}") from error
    policy = Policy(placed, checkpointing=config.checkpointing, mode=config.backward_mode)
    policy.prove()
    return policy
