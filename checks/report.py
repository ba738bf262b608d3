"""The report of a run: where the log came from, one finding per check, and the metrics."""

import math
from typing import Any

import msgspec

from checks.finding import Evidence, Finding, Number, Status
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
_IN_JSON = tuple(name for name in Finding.__struct_fields__ if name not in _NOT_IN_JSON)


def as_json(report: Report) -> bytes:
    """The object that `--format json` prints. NaN and infinity become null, with the kind `not_finite`."""
    whole = {
        "source": msgspec.to_builtins(report.source) | msgspec.to_builtins(report.counts),
        "findings": [_finding(finding) for finding in report.findings],
        "metrics": report.metrics,
    }
    # msgspec writes NaN and infinity as null.
    try:
        return msgspec.json.encode(whole)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(whole)))


# Any: any JSON value.
def _finding(finding: Finding) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(finding, name) for name in _IN_JSON}
    fields["evidence"] = [each if _finite(each) else _not_finite(each) for each in finding.evidence]
    if finding.value is not None and not math.isfinite(finding.value):
        fields["kind"] = "not_finite"
    return fields


def _finite(evidence: Evidence) -> bool:
    """Whether every number of it can be written in JSON."""
    numbers = (evidence.value, *evidence.detail.values()) if evidence.detail else (evidence.value,)
    return all(not isinstance(each, float) or math.isfinite(each) for each in numbers)


def _not_finite(evidence: Evidence) -> Evidence:
    """The evidence, saying so: in place of the check's own kind, which its text explains, where the value is none."""
    own = evidence.kind if _finite(msgspec.structs.replace(evidence, detail={})) else None
    return msgspec.structs.replace(evidence, kind=own or "not_finite")


# Any: any JSON value.
def _encodable(value: Any) -> Any:
    """The value with lone surrogates, which no encoding of Unicode has, spelled out."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value
