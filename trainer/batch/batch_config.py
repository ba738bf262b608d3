"""How captured sessions become update batches. Imports no torch."""

import math
from datetime import datetime
from typing import Annotated, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
SessionRewardTo = Literal["all", "main", "last_branch"]


class BatchConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.batch]`: which turns are trained on, against what they are compared, and in batches of what size."""

    batch_sessions: Positive = 32
    """Sessions of one batch. A group is never split, so a batch may have more. A cycle has room for
    max_staleness / updates_per_batch + 1 batches; where more sessions wait than fit, the rest is too stale and counted:
    raise this."""
    min_sessions: Positive = 2
    """Fewest sessions of an optimizer step. Fewer at the end join the step before; where there is none they wait for
    the next cycle. One session alone has nothing of its own time to be compared with."""
    max_staleness: NotNegative = 8
    """Most optimizer steps between the version that sampled a turn and the weights that the step starts from; a
    staler turn carries no loss. 8 is where prime-rl drops a rollout; SkyRL stops at 4."""
    session_reward_to: SessionRewardTo = "all"
    """Which turns a session's reward goes to: `all` of them, for all had a part in how the session ended; `main`, all
    but those of sub-agents; `last_branch`, the last turn and the turns that it extends. A turn's own reward is always
    the turn's alone, and is added."""
    scale: Literal["deviation", "none"] = "deviation"
    """What a group's advantages are divided by: the deviation of its rewards, or nothing."""
    max_user_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    """Most of a step's gradient, in |advantage| x tokens, that may come from one user; a session whose user is unknown
    is a user of its own. At 0.5 no one outweighs all others together. Where there are too few users for it their
    shares are equal."""
    propensity: bool = False
    """Whether sessions weigh by the inverse of how often their kind (version, outcome, length) is answered, relative
    to how often any is: who answers is not random."""
    propensity_min_sessions: Positive = 30
    """Fewest closed sessions of a kind whose response rate is believed (its standard error is then 0.09 at most); of
    a rarer kind the weight is 1."""
    propensity_clip: Annotated[float, msgspec.Meta(ge=1)] = 5.0
    """Largest weight by propensity, and the inverse of the smallest. Provisional."""
    untrained_events: tuple[str, ...] = ("redacted", "opt_out")
    """Kinds of events that keep a turn and what extends it from being trained on; or its session, where the event
    names no turn."""
    since: datetime | None = None
    """Turns that began before this time carry no loss and are not looked at by the gate's checks, such as
    2026-11-29T12:00:00Z: for traffic that was captured badly, once the fault is mended."""

    def __post_init__(self) -> None:
        if self.since is not None and self.since.tzinfo is None:
            raise ValueError(f"since is {self.since.isoformat()}, expected a time with its zone; add Z for UTC")
        if self.min_sessions > self.batch_sessions:
            raise ValueError(
                f"min_sessions is {self.min_sessions}, expected at most batch_sessions, {self.batch_sessions}"
            )
        if not math.isfinite(self.propensity_clip):
            raise ValueError(f"propensity_clip is {self.propensity_clip}, expected a finite number of at least 1")
