"""What is settled for one adapter: whose it is, its shape, and how it is trained. Imports no torch."""

from typing import Annotated

import msgspec

from trainer.objective_config import ObjectiveConfig
from trainer.optimizer_config import OptimizerConfig

Positive = Annotated[int, msgspec.Meta(ge=1)]


class AdapterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.adapters.NAME]`: one LoRA line of one tenant."""

    tenant: str
    """Owner: only this tenant's turns train it, and only this tenant is served by it."""
    rank: Positive = 16
    """Rank of the low-rank pairs; an engine refuses more than it was started with."""
    alpha: Annotated[float, msgspec.Meta(gt=0)] = 32.0
    """The low-rank product is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Names of the linear modules that get a pair."""
    seed: int = 0
    """Of the first weights."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """`[trainer.adapters.NAME.optimizer]`: learning rate, schedule, clipping."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """`[trainer.adapters.NAME.objective]`: which objective, with its constants."""
