"""What a candidate must show before it may take sessions. Imports no torch."""

from typing import Annotated

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]


class GateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.gate]`: the criteria. A candidate passes when every one of them does."""

    margin: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.02
    """What a candidate may be worse by than live and than the pinned best, in score (0 to 1), mean over tasks: its
    lower 95 % bound must be above -margin."""
    pass_k: Positive = 4
    """The k of pass@k, judged like the score; needs as many samples of each task. At 1 only the score is judged."""
    required_checks: tuple[str, ...] = ("importance-weight", "staleness", "length-mismatch", "served-adapter")
    """Checks that must be ok, info or warn. One that has no data refuses."""
    kl_mean: Annotated[float, msgspec.Meta(gt=0)] = 0.1
    """Most nats of KL(candidate, live) per position, mean over stored contexts, full vocabulary. Provisional."""
    kl_max: Annotated[float, msgspec.Meta(gt=0)] = 5.0
    """Most nats of it at any one position. Provisional."""
    fall_level: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.05
    """Chance, over all earlier fixes of a cycle together, that a candidate which kept them all is said to have lost
    one."""
