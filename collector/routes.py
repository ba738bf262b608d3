"""Which weights serve a call: the base model, or an adapter version that the registry routes the tenant to."""

import hashlib
from collections.abc import Sequence
from time import monotonic

from collector.errors import UserError
from collector.ports import Target
from collector.records import Route, Version
from collector.refusal import Refusal
from collector.store.adapter_names import engine_name, parse_engine_name
from collector.store.registry_rows import RegistrySnapshot

_SERVED = {"live", "canary"}
_NAMEABLE = _SERVED | {"candidate"}


_STALE_AFTER_S = 3.0


class RegistryRoutes:
    """The newest registry snapshot, asked per call. Whoever watches the registry replaces `snapshot`."""

    def __init__(
        self, base_names: Sequence[str], snapshot: RegistrySnapshot, *, stale_after_s: float = _STALE_AFTER_S
    ) -> None:
        self._base_names = tuple(base_names)
        self._stale_after_s = stale_after_s
        self.snapshot = snapshot
        self.current_at: float | None = None
        """Monotonic time of the last look that found, or made, the snapshot the newest; None while nobody watches."""
        self.failure: str | None = None
        """Why the last look at the registry failed; None when it did not."""
        self.failed_total = 0
        """Looks that failed since the start."""

    def stale(self) -> str | None:
        """Why calls may go by routes that have changed since; None while the registry is followed."""
        if self.current_at is None:
            return None
        age_s = monotonic() - self.current_at
        if age_s < self._stale_after_s:
            return None
        return f"routes stand as they were {age_s:.0f} s ago: {self.failure or 'the registry gives no answer'}"

    def target(self, tenant: str, model: str | None, *, session_id: str, pinned: Target | None) -> Target:
        """The weights for a call. A session keeps the version it got for the same asked-for target until it retires."""
        if model is not None and "@" in model:
            return self._named_version(tenant, model)
        if model is None or model in self._base_names:
            routes = [route for route in self.snapshot.routes if route.tenant == tenant]
            if pinned is not None and self._still_served(pinned, [(route.adapter, route.version) for route in routes]):
                return pinned
            return _chosen(routes, session_id)
        return self._of_adapter(tenant, model, session_id, pinned)

    def asked(self, model: str | None) -> str | None:
        """What a model name asks for: the tenant's route is None however it is spelled."""
        return None if model in self._base_names else model

    def is_canary(self, target: Target) -> bool:
        """Whether these weights are on trial now."""
        return any(
            (version.adapter, version.version, version.state) == (target.adapter, target.version, "canary")
            for version in self.snapshot.versions
        )

    def models(self, tenant: str) -> list[str]:
        """Every name this tenant may use."""
        return [*self._base_names, *(adapter for adapter, owner in self._owners() if owner == tenant)]

    def _owners(self) -> list[tuple[str, str]]:
        return [(adapter.adapter, adapter.tenant) for adapter in self.snapshot.adapters]

    def _named_version(self, tenant: str, model: str) -> Target:
        try:
            adapter, number = parse_engine_name(model)
        except UserError:
            raise self._unknown(tenant, model) from None
        version = self._version(tenant, adapter, number)
        # SGLang loads a retired name again without a word, so it is refused here.
        if version is None or version.state not in _NAMEABLE:
            raise self._unknown(tenant, model)
        return _target(adapter, number)

    def _of_adapter(self, tenant: str, adapter: str, session_id: str, pinned: Target | None) -> Target:
        """A version of one adapter: as routed, else the newest live one."""
        served = [v for v in self.snapshot.versions if v.adapter == adapter and v.state in _SERVED]
        if (adapter, tenant) not in self._owners() or not served:
            raise self._unknown(tenant, adapter)
        if pinned is not None and (pinned.adapter, pinned.version) in [(v.adapter, v.version) for v in served]:
            return pinned
        routes = [route for route in self.snapshot.routes if (route.tenant, route.adapter) == (tenant, adapter)]
        if routes:
            return _chosen(routes, session_id)
        # Version 0 is live from the start and never a canary.
        return _target(adapter, max(version.version for version in served if version.state == "live"))

    def _still_served(self, pinned: Target, routed: list[tuple[str | None, int]]) -> bool:
        if pinned.adapter is None:
            return not routed or any(adapter is None for adapter, _ in routed)
        return any(
            (version.adapter, version.version) == (pinned.adapter, pinned.version) and version.state in _SERVED
            for version in self.snapshot.versions
        )

    def _version(self, tenant: str, adapter: str, number: int) -> Version | None:
        if (adapter, tenant) not in self._owners():
            return None
        return next((v for v in self.snapshot.versions if (v.adapter, v.version) == (adapter, number)), None)

    def _unknown(self, tenant: str, model: str) -> Refusal:
        names = ", ".join(self.models(tenant))
        return Refusal.not_found(
            f"the model {model[:80]!r} does not exist or is not served to you; expected one of {names}",
            code="model_not_found",
        )


def _chosen(routes: Sequence[Route], session_id: str) -> Target:
    """One of the weighted routes; the same one for the same session and routes."""
    weighted = [route for route in routes if route.weight > 0]
    if not weighted:
        return Target()
    draw = int.from_bytes(hashlib.blake2b(session_id.encode(), digest_size=8).digest()) / 2**64
    left = draw * sum(route.weight for route in weighted)
    route = weighted[-1]
    for route in weighted:
        left -= route.weight
        if left < 0:
            break
    return Target() if route.adapter is None else _target(route.adapter, route.version)


def _target(adapter: str, version: int) -> Target:
    """Version 0 of an adapter is the base model, which the engine knows by no adapter name."""
    return Target(adapter, version, engine_name(adapter, version) if version > 0 else None)
