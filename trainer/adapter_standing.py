"""How an adapter stands: what is live, what was before, what is best, from a snapshot of the registry. No torch."""

import math
from datetime import datetime
from typing import NamedTuple

import msgspec

from collector.errors import UserError
from collector.records import Adapter, Audit, Route, Version
from collector.store.adapter_names import engine_name
from collector.store.registry_rows import RegistrySnapshot


class _Numbers(msgspec.Struct, frozen=True):
    held_out_score: float | None = None


class _Report(msgspec.Struct, frozen=True):
    verdict: str | None = None
    reasons: list[str] = []
    numbers: _Numbers = _Numbers()


class GateSummary(NamedTuple):
    """What of a gate report is decided by: its keys `verdict`, `reasons` and `numbers.held_out_score`."""

    verdict: str | None
    """`pass`, `refuse` or `inconclusive`; None without a report."""
    score: float | None
    """Mean held-out score of the version; higher is better."""
    reasons: tuple[str, ...]


class Standing(NamedTuple):
    """One adapter as the registry has it."""

    adapter: Adapter
    versions: tuple[Version, ...]
    routes: tuple[Route, ...]
    """Those of its tenant that lead to it."""
    live: Version
    """What its sessions go to, but for a canary's share."""
    live_since: datetime
    history: tuple[int, ...]
    """Versions that became live one after the other, less those that were rolled back; the live one is last."""
    rolled_back: frozenset[int]
    """Versions found bad while live: nothing that descends from one is promoted without force."""
    canary: tuple[Version, float] | None
    """The version under trial, and its share of the adapter's new sessions."""
    held: Audit | None
    """The hold it is under."""
    pinned: int | None
    best: int
    """What the gate compares with beside the live version: `pinned_best`."""


def gate_summary(version: Version) -> GateSummary:
    """What the gate said of a version."""
    try:
        report = msgspec.convert(version.gate or {}, _Report)
    except msgspec.ValidationError as error:
        return GateSummary(None, None, (f"the report cannot be read: {error}",))
    score = report.numbers.held_out_score
    finite = score is not None and math.isfinite(score)
    return GateSummary(report.verdict, score if finite else None, tuple(report.reasons))


def standing(snapshot: RegistrySnapshot, adapter: str) -> Standing:
    """One adapter as a snapshot has it."""
    known = adapter_of(snapshot, adapter)
    versions = tuple(version for version in snapshot.versions if version.adapter == adapter)
    routes = tuple(route for route in snapshot.routes if (route.tenant, route.adapter) == (known.tenant, adapter))
    live = _live(snapshot, versions, routes)
    history, rolled_back = _history(snapshot, adapter, live.version)
    pinned = snapshot.pinned.get(adapter)
    return Standing(
        adapter=known,
        versions=versions,
        routes=routes,
        live=live,
        live_since=_live_since(snapshot, live),
        history=history,
        rolled_back=rolled_back,
        canary=_canary(versions, routes),
        held=snapshot.held.get(adapter),
        pinned=pinned,
        best=_best(versions, history) if pinned is None else pinned,
    )


def pinned_best(snapshot: RegistrySnapshot, adapter: str) -> int:
    """The version that the gate compares with beside the live one.

    It is the one a person pinned; else, of the versions that are or were live and were not rolled back, the one with
    the highest held-out score in its gate report, the newer one of equals; else the live one.
    """
    return standing(snapshot, adapter).best


def tried_version(now: Standing) -> int | None:
    """The version that waits for a decision: the canary, else the newest candidate."""
    if now.canary is not None:
        return now.canary[0].version
    return next((each.version for each in reversed(now.versions) if each.state == "candidate"), None)


def ancestry(snapshot: RegistrySnapshot, adapter: str, version: int) -> tuple[int, ...]:
    """A version and what it was trained from, one after the other, down to version 0.

    Training that goes on from a version has trained on what these were trained on, and on nothing else.
    """
    parents = {known.version: known.parent for known in snapshot.versions if known.adapter == adapter}
    line: list[int] = []
    at: int | None = version
    while at is not None:
        line.append(at)
        at = parents[at]
    return tuple(line)


def adapter_of(snapshot: RegistrySnapshot, adapter: str) -> Adapter:
    """An adapter by name; the refusal says which there are."""
    for known in snapshot.adapters:
        if known.adapter == adapter:
            return known
    names = ", ".join(known.adapter for known in snapshot.adapters) or "none yet"
    raise UserError(f"no adapter {adapter!r}, expected one of: {names}; roundhouse adapters add makes one")


def version_of(snapshot: RegistrySnapshot, adapter: str, version: int) -> Version:
    """A version of an adapter; the refusal says which there are."""
    adapter_of(snapshot, adapter)
    versions = [known for known in snapshot.versions if known.adapter == adapter]
    if not 0 <= version < len(versions):
        raise UserError(f"{adapter} has versions 0 to {len(versions) - 1}, not {version}")
    return versions[version]


def _live(snapshot: RegistrySnapshot, versions: tuple[Version, ...], routes: tuple[Route, ...]) -> Version:
    live = [version for version in versions if version.state == "live"]
    routed = {route.version for route in routes}
    for choice in ([version for version in live if version.version in routed], live):
        if choice:
            # The collector serves an adapter without routes by its newest live version.
            return choice[-1]
    raise UserError(
        f"{versions[0].adapter} has no live version at revision {snapshot.revision}; "
        "bring one back with roundhouse adapters rollback --to VERSION"
    )


def _history(snapshot: RegistrySnapshot, adapter: str, live: int) -> tuple[tuple[int, ...], frozenset[int]]:
    line, bad = [0], set[int]()
    for row in snapshot.decisions:
        if row.adapter != adapter or row.version is None:
            continue
        if row.action == "promote":
            line.append(row.version)
        elif row.action == "rollback":
            if row.version in line:
                at = len(line) - 1 - line[::-1].index(row.version)
                bad.update(line[at + 1 :])
                del line[at + 1 :]
            else:
                line.append(row.version)
            bad.update(msgspec.convert((row.detail or {}).get("retired", []), list[int]))
            bad.discard(row.version)
    if line[-1] != live:
        line.append(live)
    return tuple(line), frozenset(bad - {live})


def _live_since(snapshot: RegistrySnapshot, live: Version) -> datetime:
    found = live.changed_at
    for row in snapshot.decisions:
        if (row.adapter, row.version) == (live.adapter, live.version) and row.action in ("promote", "rollback"):
            found = row.at
    return found


def _canary(versions: tuple[Version, ...], routes: tuple[Route, ...]) -> tuple[Version, float] | None:
    canaries = [version for version in versions if version.state == "canary"]
    if not canaries:
        return None
    weights = {route.version: route.weight for route in routes}
    total = math.fsum(weights.values())
    newest = max(canaries, key=lambda version: (weights.get(version.version, 0.0), version.version))
    return newest, weights.get(newest.version, 0.0) / total if total else 0.0


def _best(versions: tuple[Version, ...], history: tuple[int, ...]) -> int:
    scores = {number: gate_summary(versions[number]).score for number in history}
    scored = [(score, number) for number, score in scores.items() if score is not None]
    return max(scored)[1] if scored else history[-1]


def shown(version: Version) -> str:
    """Its engine name."""
    return engine_name(version.adapter, version.version)
