"""A tiny base model, versions of one adapter on disk, and the trainer's policy over them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from trainer.lora import TrainedAdapter
from trainer.policy import Policy
from trainer.publish.policy_probe import PolicyPredictor, make_probe, read_published
from trainer.publish.probe import Probe
from trainer.publish_config import PublishConfig
from trainer.tiny_model import VOCAB_SIZE, write_tiny_adapter, write_tiny_model

CONFIG = PublishConfig(load_limit_s=30, unload_limit_s=30, prove_limit_s=30, settle_s=0)


class Setting(NamedTuple):
    """What a trainer has when it publishes."""

    model: Path
    versions: tuple[Path, ...]
    policy: Policy

    def adapter(self, version: int) -> TrainedAdapter:
        return read_published(self.policy, self.versions[version - 1], "ada")

    def probe(self, new: int, previous: int | None) -> Probe:
        before = None if previous is None else self.adapter(previous)
        return make_probe(
            PolicyPredictor(self.policy, self.adapter(new), before), contexts(), tokens=CONFIG.probe_tokens
        )


def contexts(count: int = 4, length: int = 80) -> list[Sequence[int]]:
    generator = np.random.default_rng(5)
    return [generator.integers(0, VOCAB_SIZE, length).tolist() for _ in range(count)]


def make_setting(root: Path) -> Setting:
    torch.set_num_threads(1)
    model = write_tiny_model(root / "model")
    versions = tuple(write_tiny_adapter(root / f"ada-{seed}", model, rank=4, seed=seed) for seed in (1, 2, 3))
    return Setting(model, versions, Policy(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)))
