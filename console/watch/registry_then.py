"""The registry as it stood at a time, made again from its audit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, get_args

import msgspec

from collector.records import Audit, Decision, Route, Version, VersionState
from collector.store.registry_rows import RegistrySnapshot


class _Known(msgspec.Struct):
    """What the audit says of one version so far."""

    created_at: datetime
    changed_at: datetime
    state: VersionState
    gate: dict[str, object] | None = None


def registry_then(registry: RegistrySnapshot, audit: Sequence[Audit], at: datetime) -> RegistrySnapshot:
    """The registry after the last change that is not later than `at`; `audit` is all of it, oldest first.

    Every change is in the audit, so nothing is guessed; what never changes (parent, folder, training data) is taken
    from the versions as they are now.
    """
    done = [row for row in audit if row.at <= at]
    known: dict[tuple[str, int], _Known] = {}
    routes: dict[str, tuple[Route, ...]] = {}
    route_revisions: dict[str, int] = {}
    for row in done:
        if row.adapter is not None and row.version is not None:
            _tell(known, (row.adapter, row.version), row)
        if row.action == "replace_routes" and row.tenant is not None:
            routes[row.tenant] = msgspec.convert((row.detail or {})["to"], tuple[Route, ...])
            route_revisions[row.tenant] = row.revision
    registered = {name for name, _ in known}
    return RegistrySnapshot(
        revision=done[-1].revision if done else 0,
        adapters=tuple(each for each in registry.adapters if each.adapter in registered),
        versions=tuple(_then(each, known[key]) for each in registry.versions if (key := _key(each)) in known),
        routes=tuple(route for tenant in sorted(routes) for route in routes[tenant]),
        route_revisions=route_revisions,
        decisions=tuple(row for row in done if row.action in get_args(Decision)),
    )


def _tell(known: dict[tuple[str, int], _Known], key: tuple[str, int], row: Audit) -> None:
    # Any: the JSON of an audit row.
    detail: dict[str, Any] = row.detail or {}
    match row.action:
        case "register_adapter":
            known[key] = _Known(created_at=row.at, changed_at=row.at, state="live")
        case "register_version":
            known[key] = _Known(created_at=row.at, changed_at=row.at, state="candidate")
        case "record_gate":
            known[key].gate = detail["gate"]
        case "change_state":
            known[key].state, known[key].changed_at = detail["to"], row.at
        case _:
            pass


def _key(version: Version) -> tuple[str, int]:
    return version.adapter, version.version


def _then(version: Version, known: _Known) -> Version:
    return msgspec.structs.replace(
        version, state=known.state, gate=known.gate, created_at=known.created_at, changed_at=known.changed_at
    )
