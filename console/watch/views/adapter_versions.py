"""The versions of one adapter: what each is, what its gate said, and whether engines were seen to serve it."""

from datetime import datetime
from typing import Any, Literal

import msgspec
import polars as pl

from collector.records import Version
from trainer.adapter_standing import Standing, gate_summary
from trainer.gate.report import Criterion

Mark = Literal["live", "was_live", "candidate", "canary", "rejected", "rolled_back", "retired"]


class VersionLine(msgspec.Struct, frozen=True, kw_only=True):
    """One version."""

    version: int
    mark: Mark
    parent: int | None
    optimizer_step: int | None
    created_at: datetime
    changed_at: datetime
    verdict: str | None
    """The gate's; None where it did not judge."""
    reasons: tuple[str, ...]
    """Of that verdict."""
    score: float | None
    """Mean held-out score in the gate's report."""
    trained_turns: int
    """Turns with loss, its ancestors' apart."""
    sha256: str | None
    folder: str | None


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate said of one version, number by number."""

    version: int
    verdict: str | None
    reasons: tuple[str, ...]
    criteria: tuple[Criterion, ...]
    """Empty where the report is of another form than this version writes."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The newest proof, or probe while it serves, of one version on one worker."""

    version: int
    kind: Literal["proof", "probe"]
    worker: str | None
    at: datetime
    verdict: str | None
    text: str | None


class _ProofDetail(msgspec.Struct, frozen=True):
    verdict: str | None = None
    worker: str | None = None


class _Criteria(msgspec.Struct, frozen=True):
    criteria: tuple[Criterion, ...] = ()


def version_lines(now: Standing) -> tuple[VersionLine, ...]:
    """Every version, oldest first."""
    return tuple(_line(now, each) for each in now.versions)


def _line(now: Standing, version: Version) -> VersionLine:
    gate = gate_summary(version)
    return VersionLine(
        version=version.version,
        mark=_mark(now, version),
        parent=version.parent,
        optimizer_step=version.optimizer_step,
        created_at=version.created_at,
        changed_at=version.changed_at,
        verdict=gate.verdict,
        reasons=gate.reasons,
        score=gate.score,
        trained_turns=sum(last - first + 1 for _, first, last in version.trained_on),
        sha256=version.sha256,
        folder=version.folder,
    )


def _mark(now: Standing, version: Version) -> Mark:
    if version.version == now.live.version:
        return "live"
    if version.version in now.rolled_back:
        return "rolled_back"
    if version.state == "live":
        return "was_live"
    return version.state


def gate_of(now: Standing, candidate: int | None) -> Gate | None:
    """The report on the candidate, None where it was not judged; without one, on the newest version that was."""
    judged = [version for version in now.versions if version.gate is not None]
    if candidate is not None:
        judged = [version for version in judged if version.version == candidate]
    if not judged:
        return None
    told = judged[-1]
    summary = gate_summary(told)
    return Gate(version=told.version, verdict=summary.verdict, reasons=summary.reasons, criteria=_criteria(told.gate))


# Any: the JSON of a report.
def _criteria(report: dict[str, Any] | None) -> tuple[Criterion, ...]:
    try:
        return msgspec.convert(report or {}, _Criteria).criteria
    except msgspec.ValidationError:
        return ()


def proofs(events: pl.DataFrame, adapter: str) -> tuple[Proof, ...]:
    """The newest of each version, kind and worker, newest first; `events` has `at, kind, adapter, version, detail`."""
    told = events.filter(
        pl.col("kind").is_in(["proof", "probe"]) & (pl.col("adapter") == adapter) & pl.col("version").is_not_null()
    ).sort("at", maintain_order=True)
    newest: dict[tuple[int, str, str | None], Proof] = {}
    for at, kind, version, text, detail in told.select("at", "kind", "version", "text", "detail").iter_rows():
        found = msgspec.json.decode(detail or "{}", type=_ProofDetail)
        newest[version, kind, found.worker] = Proof(
            version=version, kind=kind, worker=found.worker, at=at, verdict=found.verdict, text=text
        )
    return tuple(sorted(newest.values(), key=lambda each: each.at, reverse=True))
