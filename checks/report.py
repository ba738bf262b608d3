"""The report of a run: where the log came from, one finding per check, and the metrics."""

import math
from typing import Any

import msgspec

from checks.finding import Finding, Number, Status
from checks.log import Source


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much was read."""

    turns: int
    sessions: int
    tokens: int
    """Prompt and completion tokens; 0 for a log of text only."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `roundhouse check` says about one log."""

    source: Source
    counts: Counts
    findings: tuple[Finding, ...]

    @property
    def metrics(self) -> dict[str, Number]:
        """All metrics that were observed."""
        return {name: value for finding in self.findings for name, value in finding.metrics.items()}

    def finding(self, check: str) -> Finding:
        """The finding of one check."""
        return next(finding for finding in self.findings if finding.check == check)

    def reaches(self, status: Status) -> bool:
        """Whether any finding is at least as grave as `status` (warn or fail)."""
        grave = {"warn": ("warn", "fail"), "fail": ("fail",)}[status]
        return any(finding.status in grave for finding in self.findings)


_NOT_IN_JSON = ("metrics", "series")


def as_json(report: Report) -> bytes:
    """The object that `--format json` prints. NaN and infinity become null, with the kind `not_finite`."""
    findings = [
        {name: value for name, value in msgspec.to_builtins(finding).items() if name not in _NOT_IN_JSON}
        for finding in report.findings
    ]
    whole = {
        "source": msgspec.to_builtins(report.source) | msgspec.to_builtins(report.counts),
        "findings": findings,
        "metrics": report.metrics,
    }
    return msgspec.json.encode(_finite(whole))


# Any: any JSON value.
def _finite(value: Any) -> Any:
    """The value with null for every float that is not finite; the object that held one says so in `kind`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    plain: dict[str, Any] = {name: _finite(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    lost = any(isinstance(each, float) and not math.isfinite(each) for each in value.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if lost and ("check" in plain or "session_id" in plain or "step" in plain):
        plain.setdefault("kind", "not_finite")
    return plain
