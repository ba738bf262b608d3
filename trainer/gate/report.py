"""What the gate says of a candidate: each criterion with its numbers, the verdict, what to do next."""

from typing import Literal, NamedTuple

import msgspec

from collector.records import Eval

Status = Literal["pass", "refuse", "inconclusive", "no_data"]
GateVerdict = Literal["pass", "refuse", "inconclusive"]


class Trial(NamedTuple):
    """A version and its held-out samples of this cycle."""

    version: int
    evals: tuple[Eval, ...]


class KlToLive(NamedTuple):
    """KL(candidate, live) over the full vocabulary, at positions of stored contexts."""

    mean: float
    """Nats."""
    max: float
    """Nats, at the worst position."""
    positions: int


class Criterion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a candidate must show."""

    name: str
    """What is judged: `score`, `pass@4`, `earlier fixes`, `evaluation`, `kl`, `proof`, or `check NAME`."""
    against: int | None = None
    """The version it is compared with."""
    status: Status
    """`no_data`: nothing was observed, so that nothing can be said for the candidate."""
    text: str
    """One sentence for a person."""
    next: str | None = None
    """What to do about it, where it did not pass."""
    candidate: float | None = None
    """The candidate's number."""
    other: float | None = None
    """The number of the version it is compared with."""
    difference: float | None = None
    """Candidate less the other, mean over tasks."""
    lower_bound: float | None = None
    """One-sided 95 % bound of the difference, clustered by task."""
    limit: float | None = None
    """Where the number or the bound must not pass: -margin, or the most of it."""
    minimum_detectable: float | None = None
    """The smallest true difference that these tasks show with a chance of 80 %."""
    tasks: int | None = None
    """Tasks compared."""
    tasks_needed: int | None = None
    """Tasks whose minimum detectable effect would be the margin, at this many samples of each."""
    tasks_needed_at_least: int | None = None
    """The same with ever more samples of each task."""


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What other parts read from a report."""

    held_out_score: float | None = None
    """Mean score of the candidate over the tasks of the slice."""
    tasks: int
    """Tasks of the slice."""
    fixes: int
    """Earlier fixes that were tried again."""


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's decision on one candidate."""

    adapter: str
    version: int
    verdict: GateVerdict
    reasons: tuple[str, ...]
    """Why it does not pass, gravest first; why it does, where it does."""
    numbers: Numbers
    criteria: tuple[Criterion, ...]
    live: int
    """The live version it was compared with."""
    best: int
    """The pinned best it was compared with."""

    def builtins(self) -> dict[str, object]:
        """The report as JSON values, for the registry; a number that is not finite is null."""
        return msgspec.json.decode(msgspec.json.encode(self), type=dict[str, object])


def verdict_of(criteria: tuple[Criterion, ...]) -> GateVerdict:
    """Refuse where one refuses; else pass only where every one passes."""
    found = {criterion.status for criterion in criteria}
    if "refuse" in found:
        return "refuse"
    return "pass" if found == {"pass"} else "inconclusive"
