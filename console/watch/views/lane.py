"""One signal's lane as a record: its numbers, its curve, its onset."""

from typing import Literal

import msgspec

from checks.finding import Status
from console.watch.views.check_number import CheckNumber
from console.watch.views.place import Fault, Place

LaneState = Literal["critical", "acked", "warning", "pending", "recovering", "ok", "no_data", "error", "silenced"]


class PartValue(msgspec.Struct, frozen=True, kw_only=True):
    """One number beside the lead value."""

    name: str
    """As a person calls it: min, kl, ess, train, @8."""
    newest: float | None = None
    """At the newest step that says; None where nothing was observed."""
    worst: float | None = None
    """The worst of the steps shown."""


class Onset(msgspec.Struct, frozen=True, kw_only=True):
    """When the signal left its band."""

    first: int
    """Earliest possible step."""
    last: int
    """Latest possible step; the same as `first` where the onset is exact."""
    rank: int
    tie: bool
    """Whether another signal may have moved at the same time."""
    seen: int
    """The step at which the test was sure."""
    part: str
    """The part that moved."""
    was: float
    """Its median before."""
    at: str | None = None
    """When the step `last` ended, UTC."""


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One of the eight signals of one adapter."""

    signal: str
    label: str
    """Short name."""
    unit: str = ""
    state: LaneState
    word: str | None = None
    """What it is said to be, where the state's own word would not do."""
    check: str
    """The check that grades it."""
    status: Status
    newest: float | None = None
    """The lead value at the newest step that says; where `newest_step` is None, the check's own, of everything held."""
    newest_step: int | None = None
    """None where no step says, and for `stall`, whose verdict is a share of the whole time."""
    worst: float | None = None
    """The worst lead value of the steps, and of what the check names; None where the lead value is the check's own."""
    worst_word: str = "max"
    """`max` or `min`: which way is bad."""
    limit: float | None = None
    """Threshold of the lead value, the same that the verdict has; None where it has none in this unit."""
    below: bool = False
    """Whether it is at fault below the limit."""
    verdict: CheckNumber | None = None
    """What the check graded: `status` is about this number; None where the check could not give one."""
    parts: tuple[PartValue, ...] = ()
    steps: tuple[int, ...] = ()
    values: tuple[float | None, ...] = ()
    """The curve, by step; None where the log says that it is not a number."""
    curve_unit: str = ""
    """Unit of the curve, where it is another than `unit`."""
    band: tuple[float, float] | None = None
    """Baseline less and plus 12 MAD: what the y axis holds at least."""
    sampled_every: int | None = None
    """Steps between two samples, where that is more than one."""
    baseline: bool = True
    """Whether there are enough samples to say that it is steady."""
    onset: Onset | None = None
    provisional: bool = False
    """Whether the numbers are the trainer's own, since the tokens have not been read yet."""
    place: Place | None = None
    """The worst fault that the check names; where it names none, the first of `faults`."""
    faults: tuple[Fault, ...] = ()
    """The worst of them, the worst first."""
    faults_total: int = 0
    """All that the check names."""
    lead: str | None = None
    """Why the faults are these, where not the check names them."""
    why: str = ""
    """The check's summary; for no data what is missing."""
