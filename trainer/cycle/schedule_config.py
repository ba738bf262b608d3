"""The `[trainer.schedule]` section of roundhouse.toml: when a cycle starts. Imports no torch."""

from typing import Annotated

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]


class ScheduleConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.schedule]`: when a cycle starts; without `every` and `min_feedback` one cycle runs and that is all."""

    every: str | None = None
    """From the start of one cycle to the start of the next: `30m`, `5h`, `1d`. A missed one is run once."""
    min_feedback: Positive | None = None
    """A cycle starts as soon as so many feedback records are new since the last one began, whatever `every` says."""
    idle_windows: tuple[str, ...] = ()
    """Local times within which a cycle may start, as in `["01:00-06:00"]`; none is any time. One that runs on beyond
    the end is not cut short."""
    poll_s: Seconds = 10.0
    """Between two looks at how much feedback is new."""
    retry_s: Seconds = 60.0
    """Wait before a cycle is tried again when no engine could be reached."""
