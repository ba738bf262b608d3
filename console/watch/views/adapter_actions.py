"""What may be done to an adapter as it stands, and in whose words it may not: the trainer's own rules."""

from collections.abc import Callable
from typing import Literal

import msgspec

from collector.errors import UserError
from collector.store.registry_rows import RegistrySnapshot
from trainer.adapter_rules import check_promotable, check_triable, rollback_target
from trainer.adapter_standing import Standing, shown, tried_version

Action = Literal["promote", "override", "canary", "reject", "rollback", "hold", "release"]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One action on one adapter."""

    action: Action
    version: int | None = None
    """What it would be done to; None for a hold, or where nothing can be named."""
    refused: str | None = None
    """Why it cannot be done; None where it can."""


def offers(registry: RegistrySnapshot, now: Standing) -> tuple[Offer, ...]:
    """Every action, for the version under trial or the newest candidate."""
    name = now.adapter.adapter
    tried = tried_version(now)
    nobody = f"{name} has no candidate and no canary"
    return (
        _of("promote", tried, nobody, lambda version: check_promotable(registry, name, version, False, False)),
        _of("override", tried, nobody, lambda version: _overrides(registry, name, version)),
        _of("canary", tried, nobody, lambda version: check_triable(registry, name, version, False)),
        _of("reject", tried, nobody, lambda _: None),
        _rollback(registry, name),
        Offer(action="hold", refused=None if now.held is None else f"{name} is held already, by {now.held.actor}"),
        Offer(action="release", refused=f"{name} is not held" if now.held is None else None),
    )


def _of(action: Action, version: int | None, nobody: str, check: Callable[[int], object]) -> Offer:
    if version is None:
        return Offer(action=action, refused=nobody)
    try:
        check(version)
    except UserError as refusal:
        return Offer(action=action, version=version, refused=str(refusal))
    return Offer(action=action, version=version)


def _overrides(registry: RegistrySnapshot, adapter: str, version: int) -> None:
    """Refuses where there is nothing to override: promote does it."""
    if not check_promotable(registry, adapter, version, True, False):
        raise UserError(f"the gate passed {adapter}@{version}; promote it")


def _rollback(registry: RegistrySnapshot, adapter: str) -> Offer:
    try:
        target = rollback_target(registry, adapter)
    except UserError as refusal:
        return Offer(action="rollback", refused=str(refusal))
    return Offer(action="rollback", version=target.version)


def sentence(offer: Offer, now: Standing) -> str:
    """What an offer would do, in one line."""
    name, live = now.adapter.adapter, shown(now.live)
    to = f"{name}@{offer.version}"
    match offer.action:
        case "promote":
            return f"new sessions go to {to} instead of {live}"
        case "override":
            return f"new sessions go to {to} instead of {live}, against the gate"
        case "canary":
            return f"a share of new sessions goes to {to}, the rest stays with {live}"
        case "reject":
            return f"{to} is rejected; new sessions go to {live}"
        case "rollback":
            return f"new sessions go back to {to} from {live}; what became live since is retired, and {name} is held"
        case "hold":
            return f"nothing of {name} is promoted by itself until it is released"
        case "release":
            return f"{name} may be promoted by the gate again"
