"""What may be done to an adapter as it stands, each rule with the sentence that refuses it. Imports no torch."""

from collector.errors import UserError
from collector.records import Version
from collector.store.registry_rows import RegistrySnapshot
from collector.store.registry_rules import RegistryConflict
from trainer.adapter_standing import Standing, ancestry, gate_summary, shown, standing, version_of


class Refused(UserError):
    """What was asked for is not allowed as the adapter stands."""


def check_promotable(snapshot: RegistrySnapshot, adapter: str, version: int, force: bool, automatic: bool) -> list[str]:
    """Refuses a version that cannot be promoted; says what `force` overrides."""
    found, now = version_of(snapshot, adapter, version), standing(snapshot, adapter)
    name = shown(found)
    if found.state == "live":
        raise RegistryConflict(f"{name} is live already")
    if found.state == "retired":
        raise Refused(f"{name} is retired; roundhouse adapters rollback --to {version} goes back to it")
    if found.state == "rejected":
        raise Refused(f"{name} is rejected; train another version")
    if automatic and now.held is not None:
        raise Refused(f"{adapter} is held by {now.held.actor}: {now.held.reason}; release it first")
    if automatic and found.state == "canary":
        raise Refused(f"{name} is a canary, and a canary is never promoted by itself; a person decides")
    _refuse_second_canary(now, found)
    if by_name_only(snapshot, now) and version < now.live.version:
        raise Refused(f"{name} is older than {shown(now.live)}, and {adapter}, which has no routes, serves the newest")
    return _overridden(snapshot, now, found, force)


def _overridden(snapshot: RegistrySnapshot, now: Standing, found: Version, force: bool) -> list[str]:
    gate = gate_summary(found)
    wrong: list[str] = []
    if gate.verdict != "pass":
        said = f"the gate's verdict is {gate.verdict}" if gate.verdict is not None else "the gate has not judged it"
        wrong.append(": ".join([said, *gate.reasons[:1]]))
    bad = [number for number in ancestry(snapshot, found.adapter, found.version) if number in now.rolled_back]
    if bad:
        wrong.append(f"it was trained from version {bad[0]}, which was rolled back")
    if wrong and not force:
        raise Refused(
            f"{shown(found)} is not promoted: {'; '.join(wrong)}; --force with a reason promotes it all the same"
        )
    return wrong


def check_triable(snapshot: RegistrySnapshot, adapter: str, version: int, force: bool) -> None:
    """Refuses a version that cannot be a canary."""
    found, now = version_of(snapshot, adapter, version), standing(snapshot, adapter)
    if found.state not in ("candidate", "canary"):
        raise Refused(f"{shown(found)} is {found.state}; only a candidate becomes a canary")
    _refuse_second_canary(now, found)
    if by_name_only(snapshot, now):
        raise Refused(f"{adapter} has no routes, its tenant's sessions go to other adapters: there is no share to give")
    if gate_summary(found).verdict == "refuse" and not force:
        raise Refused(f"the gate refused {shown(found)}; --force with a reason shows it to users all the same")


def _refuse_second_canary(now: Standing, found: Version) -> None:
    if now.canary is not None and now.canary[0].version != found.version:
        raise Refused(f"{shown(now.canary[0])} is the canary; promote or reject it before {shown(found)}")


def by_name_only(snapshot: RegistrySnapshot, now: Standing) -> bool:
    """Whether its tenant's sessions are all routed to other adapters, so that it is reached by its name alone."""
    others = {route.adapter for route in snapshot.routes if route.tenant == now.adapter.tenant}
    return not now.routes and bool(others - {None, now.adapter.adapter})


def rollback_target(snapshot: RegistrySnapshot, adapter: str, to: int | None = None) -> Version:
    """The version that a rollback would go to."""
    now = standing(snapshot, adapter)
    if to is None:
        earlier = [number for number in now.history[:-1] if number != now.live.version]
        if not earlier:
            raise Refused(f"{shown(now.live)} is the first live version of {adapter}; there is nothing to go back to")
        to = earlier[-1]
    target = version_of(snapshot, adapter, to)
    if to == now.live.version:
        raise RegistryConflict(f"{shown(target)} is live already; name an earlier version, or none for the last")
    if target.state not in ("live", "retired"):
        raise Refused(f"{shown(target)} is {target.state} and never was live; promote it, or go back to another one")
    return target
