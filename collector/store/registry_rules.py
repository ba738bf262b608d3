"""What a change of the registry must satisfy, each rule with the sentence that refuses it."""

import math
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from collector.errors import StoreError, UserError
from collector.records import Route, VersionState
from collector.store.adapter_names import engine_name
from collector.store.registry_rows import RegistrySnapshot, read_rows

TRANSITIONS: Final[Mapping[VersionState, tuple[VersionState, ...]]] = {
    "candidate": ("canary", "live", "rejected"),
    "canary": ("live", "rejected"),
    "live": ("retired",),
    "retired": ("live",),
    "rejected": (),
}
"""The states a version may go to from each state; a rollback takes a retired version back to live."""


class RegistryConflict(StoreError):
    """Another process changed the registry first, or the change is not legal: read it again and decide anew."""


def check_transition(name: str, before: VersionState, after: VersionState) -> None:
    """A version only moves along `TRANSITIONS`."""
    if after not in TRANSITIONS[before]:
        legal = " or ".join(TRANSITIONS[before]) or "no other state"
        raise UserError(f"{name}: {before} cannot become {after}, only {legal}")


def check_sha256(sha256: str) -> None:
    """A hash is written in full."""
    if len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
        raise UserError(f"sha256 is {sha256!r}, expected 64 lower-case hex digits")


def check_folder(store: Path, folder: str) -> None:
    """A version's folder exists inside the store, wherever links lead."""
    path = store / folder
    if Path(folder).is_absolute() or store.resolve() not in path.resolve().parents or not path.is_dir():
        raise UserError(f"{folder!r} is no folder inside {store}; save the version there first")


def check_unrouted(path: Path, connection: sqlite3.Connection, adapter: str, version: int) -> None:
    """A version that takes new sessions is not taken away."""
    routed = read_rows(connection, Route, adapter=adapter, version=version)
    if routed:
        tenants = ", ".join(sorted({route.tenant for route in routed}))
        name = engine_name(adapter, version)
        raise RegistryConflict(f"{path}: {name} still has a route from {tenants}; replace the routes first")


def check_routes(tenant: str, routes: Sequence[Route]) -> None:
    """Routes are one tenant's, each to another version, with weights that mean something."""
    for route in routes:
        if route.tenant != tenant:
            raise UserError(f"a route of {route.tenant} was given for {tenant}; each tenant's routes go alone")
        if not (math.isfinite(route.weight) and route.weight > 0):
            raise UserError(f"the weight of a route of {tenant} is {route.weight}, expected more than 0 and finite")
    targets = [(route.adapter, route.version) for route in routes]
    if len(set(targets)) != len(targets):
        raise UserError(f"{tenant} was given two routes to one version; add their weights up")


def check_routable(path: Path, snapshot: RegistrySnapshot, route: Route) -> None:
    """A route leads to the base model, or to a canary or live version of the tenant's own adapter."""
    if route.adapter is None:
        if route.version != 0:
            raise UserError(f"a route of {route.tenant} names version {route.version} of no adapter; name the adapter")
        return
    owner = {known.adapter: known.tenant for known in snapshot.adapters}.get(route.adapter)
    if owner != route.tenant:
        raise UserError(f"{path}: {route.tenant} has no adapter {route.adapter!r}; register it for that tenant")
    states = {(known.adapter, known.version): known.state for known in snapshot.versions}
    state = states.get((route.adapter, route.version), "unknown")
    if state not in ("canary", "live"):
        name = engine_name(route.adapter, route.version)
        raise RegistryConflict(f"{path}: {name} is {state}; only a canary or live version can be routed to")
