"""An order of a person about an adapter, carried out: by `roundhouse adapters` and by the console."""

import getpass
from typing import Literal, NamedTuple

from collector.errors import UserError
from collector.store.registry import Registry
from console.adapters_serving import Serving, served_check
from trainer import adapters
from trainer.adapter_standing import standing

Action = Literal["promote", "canary", "reject", "hold", "release", "pin", "rollback"]
ACKNOWLEDGED_WITHIN_S = 2.0


class Order(NamedTuple):
    """What is to be done."""

    action: Action
    adapter: str
    actor: str
    reason: str
    version: int | None = None
    """For a rollback None is the previous live version; for a pin it ends the pin."""
    share: float = 0.0
    """Of new sessions, for a canary."""
    force: bool = False
    """Against the gate."""
    seen: int | None = None
    """The registry's revision that it was decided at; the newest when not given."""


class Outcome(NamedTuple):
    """What became of an order, read back from the registry."""

    revision: int
    """The one that has all of it."""
    before: int | None
    """The live version before; None for an adapter that was not there."""
    live: int
    """The live version now."""
    behind: tuple[str, ...]
    """Collectors that do not act on it yet."""


def carry_out(order: Order, registry: Registry, serving: Serving) -> Outcome:
    """Does it, or raises what forbids it; then waits a moment for the collectors."""
    before = standing(registry.snapshot(), order.adapter).live.version
    revision = _done(order, registry, serving)
    return outcome(registry, order.adapter, revision, before=before)


def outcome(registry: Registry, adapter: str, revision: int, *, before: int | None) -> Outcome:
    """How things stand after a change, when the collectors have had a moment to act on it."""
    behind = adapters.wait_for_readers(registry, revision, ACKNOWLEDGED_WITHIN_S)
    live = standing(registry.snapshot(), adapter).live.version
    return Outcome(revision, before, live, tuple(each.reader for each in behind))


def _done(order: Order, registry: Registry, serving: Serving) -> int:
    name, actor, reason, seen = order.adapter, order.actor, order.reason, order.seen
    if order.action == "hold":
        return adapters.hold(registry, name, actor=actor, reason=reason, seen=seen)
    if order.action == "release":
        return adapters.release(registry, name, actor=actor, reason=reason, seen=seen)
    if order.action == "pin":
        return adapters.pin(registry, name, order.version, actor=actor, reason=reason, seen=seen)
    return _routed(order, registry, serving).revision


def _routed(order: Order, registry: Registry, serving: Serving) -> adapters.Changed:
    name, actor, reason, seen = order.adapter, order.actor, order.reason, order.seen
    load = served_check(serving, registry)
    if order.action == "rollback":
        return adapters.rollback(registry, name, order.version, load=load, actor=actor, reason=reason, seen=seen)
    if order.version is None:
        raise UserError(f"{order.action} of {name} names no version; expected one")
    if order.action == "reject":
        return adapters.reject(registry, name, order.version, actor=actor, reason=reason, seen=seen)
    force = order.force
    if order.action == "canary":
        return adapters.canary(
            registry, name, order.version, order.share, load=load, actor=actor, reason=reason, force=force, seen=seen
        )
    return adapters.promote(
        registry, name, order.version, load=load, actor=actor, reason=reason, force=force, seen=seen
    )


def login_name() -> str:
    """Who sits at this terminal; refused where the system does not know."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:
        raise UserError("your login name is not known; give --actor, who decides this") from error
