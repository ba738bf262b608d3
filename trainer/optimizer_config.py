"""How one adapter is updated. Imports no torch."""

from typing import Annotated, Literal

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class OptimizerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one adapter is updated."""

    lr: Positive = 1e-4
    """Peak learning rate."""
    warmup_steps: Count = 0
    """Steps over which the learning rate rises linearly from lr / warmup_steps."""
    schedule: Literal["constant", "cosine"] = "constant"
    """After the warm-up: constant, or a half cosine down to 0 at `total_steps`."""
    total_steps: Count = 0
    """Where the cosine ends; read by that schedule only."""
    beta1: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.9
    """AdamW's decay of the mean gradient."""
    beta2: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.999
    """AdamW's decay of the mean square."""
    eps: Positive = 1e-8
    """AdamW's epsilon."""
    weight_decay: NotNegative = 0.0
    """AdamW's decoupled weight decay."""
    max_grad_norm: Positive | None = 1.0
    """Gradients of a larger L2 norm are scaled down to it; None never clips."""

    def __post_init__(self) -> None:
        if self.schedule == "cosine" and self.total_steps <= self.warmup_steps:
            raise ValueError(
                f"schedule is cosine and total_steps {self.total_steps}, expected more than warmup_steps, "
                f"{self.warmup_steps}: every step after the warm-up would have a learning rate of 0 and train nothing"
            )
