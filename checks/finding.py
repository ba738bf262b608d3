"""What a check says: one finding, graded, with one piece of evidence for each fault."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

Status = Literal["ok", "info", "warn", "fail", "no_data"]
STATUSES: tuple[Status, ...] = ("ok", "no_data", "info", "warn", "fail")
"""From best to worst; no_data is worse than ok only in that nothing is known."""
EVIDENCE_LIMIT = 100_000
"""Most pieces of evidence one finding keeps; the rest is counted in `evidence_omitted`."""

Number = int | float


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault and where it is. What does not apply is left out."""

    session_id: str | None = None
    """The session."""
    turn: int | None = None
    """1-based turn of the session."""
    previous_turn: int | None = None
    """For a break: the earlier turn that this one continues."""
    token_index: int | None = None
    """0-based, in `prompt_ids` for faults of the prompt and in `completion_ids` for faults of the completion."""
    group_id: str | None = None
    """The group, for faults of a group."""
    step: int | None = None
    """The optimizer step, for faults of a step."""
    adapter: str | None = None
    """The adapter, where there is more than one line of training."""
    kind: str | None = None
    """Which of the check's kinds."""
    status: Status | None = None
    """How grave this fault is alone, where faults of one check differ."""
    value: float | None = None
    """The number that is at fault, in the finding's unit unless `text` says otherwise."""
    text: str | None = None
    """One line for a person. Text of models in it is as it was logged: escape it where it is shown."""
    detail: dict[str, int | float | str | None] = {}
    """More numbers about this fault, by name: `previous_id`, `current_id`, `lag` and so on."""

    @property
    def trainer_step(self) -> int | None:
        """Where the trainer stood in the scoring that it is about, if it names one."""
        told = self.detail.get("trainer_step") if self.step is None else self.step
        return told if isinstance(told, int) else None


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value becomes a warning and a failure; None where it never does."""

    warn: float | None = None
    fail: float | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A curve or a histogram for a plot: `y` over `x`, of equal length."""

    name: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    kind: Literal["line", "bars", "points"] = "line"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found in one log."""

    check: str
    """The check's name."""
    status: Status
    """The gravest thing it found."""
    value: Number | None = None
    """The number that the thresholds are for; None when there is no data."""
    unit: str = ""
    """The unit of `value`."""
    threshold: Threshold | None = None
    """The thresholds it was graded with."""
    summary: str
    """One sentence for a person."""
    check_next: tuple[str, ...] = ()
    """What to look at next, most likely first."""
    evidence: tuple[Evidence, ...] = ()
    """One entry for each fault, worst first."""
    evidence_omitted: int = 0
    """Faults beyond `EVIDENCE_LIMIT`."""
    missing: tuple[str, ...] = ()
    """For no_data: the columns (`table.column`) that the log would have to hold; any one of them may be the cause."""
    breakdown: tuple[dict[str, int | float | str | None], ...] = ()
    """The same numbers by part: by lag, by role, by k. Every row has the same keys."""
    metrics: dict[str, Number] = {}
    """Entries of the report's `metrics`, only what was observed."""
    series: tuple[Series, ...] = ()
    """Curves for the plots of the HTML report."""

    @classmethod
    def no_data(cls, check: str, summary: str, *, missing: Sequence[str] = ()) -> "Finding":
        """Nothing observed, so nothing said: never ok, never 0."""
        return cls(check=check, status="no_data", summary=summary, missing=tuple(missing))


def grade(value: float, *, warn_at: float | None, fail_at: float | None, below: bool = False) -> Status:
    """ok, warn or fail. A threshold is crossed when the value exceeds it, or falls below it with `below`.

    A value that is not a number fails.
    """
    if math.isnan(value):
        return "fail"
    sign = -1.0 if below else 1.0
    if fail_at is not None and sign * value > sign * fail_at:
        return "fail"
    if warn_at is not None and sign * value > sign * warn_at:
        return "warn"
    return "ok"


def worst(statuses: Sequence[Status]) -> Status:
    """The gravest of some statuses; ok of none."""
    return max(statuses, key=STATUSES.index) if statuses else "ok"


def kept(evidence: Sequence[Evidence]) -> tuple[tuple[Evidence, ...], int]:
    """The evidence a finding keeps, and how many entries it leaves out."""
    return tuple(evidence[:EVIDENCE_LIMIT]), max(0, len(evidence) - EVIDENCE_LIMIT)
