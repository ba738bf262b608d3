"""The number that a signal's check judges, in the unit of its limits: what a lane's state is about."""

import math

import msgspec

from checks.finding import Finding
from checks.signals import ESTIMATE

OF = {
    "max_w": "largest",
    "staleness": "largest",
    "stall": "in all",
    "mfu": "mean of steps",
    "reward_eval_gap": "newest",
    "pass_at_k": "pass@1; newest",
    "entropy": "mean",
    "grad_norm": "x median",
}
"""Signal to what its check makes of everything held: the largest token, the mean, the newest evaluation."""
_BELOW = ("mfu", "entropy")


class CheckNumber(msgspec.Struct, frozen=True, kw_only=True):
    """What a check graded; the curve of the same signal is of single steps, and may be of another source."""

    value: float
    unit: str
    of: str
    """What it is of, beside everything held: `largest`, `mean`, `pass@1; suite A, not B; newest`."""
    warn: float | None = None
    fail: float | None = None
    below: bool = False
    """Whether it is at fault below its limits."""


def check_number(signal: str, finding: Finding, max_w_limit: float | None, suites: str) -> CheckNumber | None:
    """None where the check could not give a number. `suites`: which held-out suite it is of, where there are several.

    The check of max w grades several numbers and leads with mean |log w|: here it is the largest w, where that is
    known.
    """
    if signal == "max_w" and "max_w" in finding.metrics:
        return _finite(CheckNumber(value=float(finding.metrics["max_w"]), unit="w", of=OF[signal], warn=max_w_limit))
    if finding.value is None:
        return None
    of, unit = OF[signal], finding.unit
    if signal == "max_w":
        of = "mean of steps"
    elif signal == "entropy" and "entropy_mean" not in finding.metrics and ESTIMATE in finding.metrics:
        unit += " (estimate)"
    elif signal in ("reward_eval_gap", "pass_at_k") and suites:
        of = of.replace("newest", f"{suites}; newest")
    limits = finding.threshold
    return _finite(
        CheckNumber(
            value=float(finding.value),
            unit=unit,
            of=of,
            warn=None if limits is None else limits.warn,
            fail=None if limits is None else limits.fail,
            below=signal in _BELOW,
        )
    )


def _finite(verdict: CheckNumber) -> CheckNumber | None:
    """None where it is no number: the check says that in words."""
    return verdict if math.isfinite(verdict.value) else None
