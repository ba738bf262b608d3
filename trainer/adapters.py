"""The life of an adapter: promoted, tried as a canary, held, pinned, rolled back, retired. Imports no torch.

Each change is one transaction of the registry: states, routes and the decision with its actor and reason happen
together or not at all. `seen` is the revision that the caller decided at (the newest when not given): if the
adapter's states or its tenant's routes have changed since, or something was decided about it, the change is refused as
a `RegistryConflict`. A tenant whose routes all lead to other adapters reaches this one by name, and its
routes are left alone.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from collector.errors import UserError
from collector.records import Adapter, Audit, Route, Version
from collector.store.registry import Acknowledgement, Registry
from collector.store.registry_rows import RegistrySnapshot
from collector.store.registry_rules import RegistryConflict
from trainer.adapter_rules import Refused, by_name_only, check_promotable, check_triable, rollback_target
from trainer.adapter_standing import Standing, adapter_of, shown, standing, version_of

Load = Callable[[Version], None]
"""Sees to it that every engine worker serves the version and that this was proved; raises what forbids to route to it.
It is asked before anything changes, and never for version 0, which is the base model."""


class Changed(NamedTuple):
    """What a change came to."""

    before: int
    """The live version before."""
    after: int
    """The live version now."""
    revision: int
    """Of the registry, after all of it: a reader that has acknowledged it acts on the change."""


def add_adapter(registry: Registry, adapter: str, *, tenant: str, base_model: str, actor: str, reason: str) -> Adapter:
    """Registers an adapter; a tenant without routes gets one to its version 0."""
    with registry.together():
        made = registry.register_adapter(adapter, tenant=tenant, base_model=base_model, actor=actor, reason=reason)
        snapshot = registry.snapshot()
        if not any(route.tenant == tenant for route in snapshot.routes):
            _replace(registry, snapshot, tenant, [Route(tenant=tenant, adapter=adapter)], actor, reason)
        return made


def promote(
    registry: Registry,
    adapter: str,
    version: int,
    *,
    load: Load,
    actor: str,
    reason: str,
    force: bool = False,
    automatic: bool = False,
    seen: int | None = None,
) -> Changed:
    """Makes a candidate or canary the live version; the earlier one stays live until `retire`.

    Without `force` the gate's report on it must have passed. `automatic` is what no person asked for: it is refused
    for a held adapter and for a canary, and never forced.
    """
    assert not (force and automatic), "only a person forces"
    seen = _asked(
        registry, adapter, version, load, seen, lambda now: check_promotable(now, adapter, version, force, automatic)
    )
    with registry.together():
        snapshot = _unchanged(registry, adapter, seen)
        forced = check_promotable(snapshot, adapter, version, force, automatic)
        now = standing(snapshot, adapter)
        found = now.versions[version]
        registry.change_state(adapter, version, expected=found.state, to="live", actor=actor, reason=reason)
        _route(registry, now, [(version, 1.0)], actor, reason)
        detail = {"from": now.live.version, "forced": forced, "automatic": automatic}
        revision = registry.record_decision(
            adapter, "promote", version=version, detail=detail, actor=actor, reason=reason
        )
        return Changed(now.live.version, version, revision)


def canary(
    registry: Registry,
    adapter: str,
    version: int,
    share: float,
    *,
    load: Load,
    actor: str,
    reason: str,
    force: bool = False,
    seen: int | None = None,
) -> Changed:
    """Gives a candidate a share of the adapter's new sessions, or a canary another share."""
    if not (math.isfinite(share) and 0 < share < 1):
        raise UserError(f"share is {share}, expected more than 0 and less than 1: the canary's part of new sessions")
    seen = _asked(registry, adapter, version, load, seen, lambda now: check_triable(now, adapter, version, force))
    with registry.together():
        snapshot = _unchanged(registry, adapter, seen)
        check_triable(snapshot, adapter, version, force)
        now = standing(snapshot, adapter)
        if now.versions[version].state == "candidate":
            registry.change_state(adapter, version, expected="candidate", to="canary", actor=actor, reason=reason)
        _route(registry, now, [(now.live.version, 1 - share), (version, share)], actor, reason)
        return Changed(now.live.version, now.live.version, registry.revision())


def reject(
    registry: Registry, adapter: str, version: int, *, actor: str, reason: str, seen: int | None = None
) -> Changed:
    """Ends a candidate, or a canary, whose sessions go to the live version again."""
    with registry.together():
        snapshot = _unchanged(registry, adapter, seen)
        found, now = version_of(snapshot, adapter, version), standing(snapshot, adapter)
        if found.state not in ("candidate", "canary"):
            raise RegistryConflict(f"{shown(found)} is {found.state}, and only a candidate or canary can be rejected")
        if any(route.version == version for route in now.routes):
            _route(registry, now, [(now.live.version, 1.0)], actor, reason)
        registry.change_state(adapter, version, expected=found.state, to="rejected", actor=actor, reason=reason)
        return Changed(now.live.version, now.live.version, registry.revision())


def rollback(
    registry: Registry,
    adapter: str,
    to: int | None = None,
    *,
    load: Load,
    actor: str,
    reason: str,
    seen: int | None = None,
) -> Changed:
    """Goes back to the version that was live before, or to an earlier one, and holds the adapter.

    Every version that became live since is retired, so that its sessions change over at their next turn, and a
    canary is rejected. Training goes on from the version gone back to: what only the retired ones were trained on may
    be trained on again, but not what they sampled, since it is no ancestor of theirs. Going to a version that was
    itself rolled back undoes that, and then the present one stays live until `retire`.
    """
    before = registry.snapshot()
    target = rollback_target(before, adapter, to)
    seen = before.revision if seen is None else seen
    seen = _asked(registry, adapter, target.version, load, seen, lambda now: rollback_target(now, adapter, to))
    with registry.together():
        snapshot = _unchanged(registry, adapter, seen)
        target, now = rollback_target(snapshot, adapter, to), standing(snapshot, adapter)
        if target.state == "retired":
            registry.change_state(adapter, target.version, expected="retired", to="live", actor=actor, reason=reason)
        _route(registry, now, [(target.version, 1.0)], actor, reason)
        retired = _after(snapshot, now, target.version)
        for number in retired:
            registry.change_state(adapter, number, expected="live", to="retired", actor=actor, reason=reason)
        rejected = [version.version for version in now.versions if version.state == "canary"]
        for number in rejected:
            registry.change_state(adapter, number, expected="canary", to="rejected", actor=actor, reason=reason)
        detail = {"from": now.live.version, "retired": retired, "rejected": rejected}
        revision = registry.record_decision(
            adapter, "rollback", version=target.version, detail=detail, actor=actor, reason=reason
        )
        if now.held is None:
            why = f"rolled back from version {now.live.version} to {target.version}: {reason}"
            revision = registry.record_decision(adapter, "hold", actor=actor, reason=why)
        return Changed(now.live.version, target.version, revision)


def retire(registry: Registry, adapter: str, version: int, *, actor: str, reason: str) -> Changed:
    """Ends a superseded version whose sessions are drained; the collector refuses its name from then on."""
    with registry.together():
        snapshot = registry.snapshot()
        now, found = standing(snapshot, adapter), version_of(snapshot, adapter, version)
        if version == now.live.version:
            raise Refused(f"{shown(found)} is what {adapter}'s sessions go to; promote another version first")
        registry.change_state(adapter, version, expected="live", to="retired", actor=actor, reason=reason)
        return Changed(now.live.version, now.live.version, registry.revision())


def superseded(snapshot: RegistrySnapshot, adapter: str) -> tuple[Version, ...]:
    """Versions that are live and get no new sessions: what is to be drained, then retired."""
    now = standing(snapshot, adapter)
    return tuple(each for each in now.versions if each.state == "live" and each.version != now.live.version)


def hold(registry: Registry, adapter: str, *, actor: str, reason: str, seen: int | None = None) -> int:
    """Nothing of the adapter is promoted by itself until it is released; a person may still promote."""
    with registry.together():
        held = standing(_unchanged(registry, adapter, seen), adapter).held
        if held is not None:
            raise RegistryConflict(f"{adapter} is held already, by {held.actor}: {held.reason}")
        return registry.record_decision(adapter, "hold", actor=actor, reason=reason)


def release(registry: Registry, adapter: str, *, actor: str, reason: str, seen: int | None = None) -> int:
    """Ends a hold."""
    with registry.together():
        if standing(_unchanged(registry, adapter, seen), adapter).held is None:
            raise RegistryConflict(f"{adapter} is not held; there is nothing to release")
        return registry.record_decision(adapter, "release", actor=actor, reason=reason)


def pin(
    registry: Registry, adapter: str, version: int | None, *, actor: str, reason: str, seen: int | None = None
) -> int:
    """Names what the gate compares with beside the live version; None goes back to the rule of `pinned_best`."""
    with registry.together():
        snapshot = _unchanged(registry, adapter, seen)
        if version is not None and (found := version_of(snapshot, adapter, version)).state not in ("live", "retired"):
            raise Refused(f"{shown(found)} is {found.state} and never was live; only a version that was can be pinned")
        if snapshot.pinned.get(adapter_of(snapshot, adapter).adapter) == version:
            raise RegistryConflict(
                f"{adapter} has {'no pin' if version is None else f'version {version} pinned'} already"
            )
        return registry.record_decision(adapter, "pin", version=version, actor=actor, reason=reason)


def wait_for_readers(registry: Registry, revision: int, timeout_s: float) -> list[Acknowledgement]:
    """The collectors that do not act on a revision yet after at most so many seconds."""
    deadline = time.monotonic() + timeout_s
    while (behind := registry.behind(revision)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return behind


def _asked(
    registry: Registry,
    adapter: str,
    version: int,
    load: Load,
    seen: int | None,
    check: Callable[[RegistrySnapshot], object],
) -> int:
    """Refuses early what cannot be, has the version loaded, and says at which revision that was decided."""
    snapshot = registry.snapshot()
    seen = snapshot.revision if seen is None else seen
    _refuse_later(registry.last_change(adapter), adapter, seen)
    check(snapshot)
    if version > 0:
        load(version_of(snapshot, adapter, version))
    return seen


def _unchanged(registry: Registry, adapter: str, seen: int | None) -> RegistrySnapshot:
    if seen is not None:
        _refuse_later(registry.last_change(adapter), adapter, seen)
    return registry.snapshot()


def _refuse_later(last: Audit | None, adapter: str, seen: int) -> None:
    if last is not None and last.revision > seen:
        raise RegistryConflict(
            f"{adapter} was changed at revision {last.revision} ({last.action} by {last.actor}: {last.reason}), after "
            f"revision {seen} that this was decided at; look again and decide anew"
        )


def _after(snapshot: RegistrySnapshot, now: Standing, target: int) -> list[int]:
    """The live versions that a rollback ends: those that became live after its target."""
    later = set[int]()
    if target in now.history:
        last = len(now.history) - 1 - now.history[::-1].index(target)
        later = set(now.history[last + 1 :])
    if by_name_only(snapshot, now):
        # Without routes the newest live version is served.
        later |= {version.version for version in now.versions if version.version > target}
    return [each.version for each in now.versions if each.state == "live" and each.version in later - {target}]


def _route(registry: Registry, now: Standing, shares: Sequence[tuple[int, float]], actor: str, reason: str) -> None:
    """Gives the adapter's part of its tenant's sessions to the versions named."""
    snapshot, name, tenant = registry.snapshot(), now.adapter.adapter, now.adapter.tenant
    if by_name_only(snapshot, now):
        return
    given = [route for route in snapshot.routes if route.tenant == tenant]
    # Routes to the bare base model are this adapter's, where there is no other one.
    own = [route for route in given if route.adapter == name] or given
    weight = math.fsum(route.weight for route in own) or 1.0
    kept = [route for route in given if route not in own]
    new = [Route(tenant=tenant, adapter=name, version=number, weight=weight * share) for number, share in shares]
    _replace(registry, snapshot, tenant, [*kept, *new], actor, reason)


def _replace(
    registry: Registry, snapshot: RegistrySnapshot, tenant: str, routes: list[Route], actor: str, reason: str
) -> None:
    revision = snapshot.route_revisions.get(tenant, 0)
    registry.replace_routes(tenant, routes, expected_revision=revision, actor=actor, reason=reason)
