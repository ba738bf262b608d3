"""Which objective a step minimises: the terms of `trainer.objective` and their constants. Imports no torch."""

from typing import Annotated, Literal

import msgspec

NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class ObjectiveConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The objective's variants by name. The defaults are truncated importance sampling with the PPO clip."""

    importance: Literal["truncate", "mask", "sequence", "none"] = "truncate"
    """What becomes of w = pi_old/mu: `truncate` takes min(w, w_max) of each token; `mask` takes w where
    1/w_max <= w <= w_max and 0 elsewhere; `sequence` takes min(product of w over the turn, w_max); `none` takes 1,
    which is biased wherever the engine and the trainer disagree."""
    w_max: Positive = 2.0
    """Where w is cut. 2 is the usual token-level bound of truncated importance sampling."""
    clip: bool = True
    """Whether r = pi/pi_old is clipped as in PPO."""
    clip_low: Share = 0.2
    """r is clipped at 1 - clip_low."""
    clip_high: NotNegative = 0.2
    """r is clipped at 1 + clip_high; above clip_low it is the variant known as clip-higher."""
    kl_base: NotNegative = 0.0
    """Weight of the KL to the base model, in nats per token; 0 needs no reference log-probabilities."""
