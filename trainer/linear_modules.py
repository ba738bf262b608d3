"""The linear modules of a network that can carry a LoRA adapter, in the engine and in training."""

from collections.abc import Iterator
from typing import cast

import torch
from transformers import PreTrainedModel


def linear_modules(network: PreTrainedModel) -> dict[str, torch.nn.Linear]:
    """By name. Experts see some of the tokens and the head only the last: a slice of a step means nothing there."""
    modules = cast("Iterator[tuple[str, torch.nn.Module]]", network.named_modules())
    return {
        name: module
        for name, module in modules
        if isinstance(module, torch.nn.Linear) and name != "lm_head" and ".experts." not in name
    }
