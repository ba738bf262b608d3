"""The base model of the drills: random, and as sure of some tokens as a trained one is."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from trainer.tiny_model import write_tiny_model

SHARPER_BY = 2.0
"""What the logits are multiplied by. Only tokens of middling to high probability tell what is wrong with a temperature;
a random model has next to none."""


def write_sharp_model(folder: Path) -> Path:
    """The same files every time."""
    write_tiny_model(folder)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        network.lm_head.weight.mul_(SHARPER_BY)
    network.save_pretrained(folder)
    return folder
