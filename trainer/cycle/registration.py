"""Adapters of the configuration in the registry: what is missing is added, what contradicts it is refused."""

from collections.abc import Mapping

from collector.errors import UserError
from collector.records import Adapter
from collector.store.registry import Registry
from collector.store.registry_rows import RegistrySnapshot
from trainer.adapter_config import AdapterConfig
from trainer.adapters import add_adapter


def refuse_mismatch(
    adapters: Mapping[str, AdapterConfig], registered: RegistrySnapshot, base_model: str | None
) -> None:
    """Refuses an adapter that the registry knows as another tenant's or another base model's."""
    for known in registered.adapters:
        if known.adapter not in adapters:
            continue
        tenant = adapters[known.adapter].tenant
        if known.tenant != tenant:
            raise UserError(
                f"[trainer.adapters.{known.adapter}] tenant is {tenant!r}, but it is registered as {known.tenant!r}'s; "
                "an adapter keeps its tenant: choose another name for the new one"
            )
        if base_model is not None:
            refuse_other_base_model(known, base_model)


def refuse_other_base_model(adapter: Adapter, base_model: str) -> None:
    """Refuses an adapter of another base model than the one that is served."""
    if adapter.base_model != base_model:
        raise UserError(
            f"adapter {adapter.adapter} is registered on the base model {adapter.base_model!r}, but the engine serves "
            f"{base_model!r}; start the engine with that model, or choose another name for a new adapter"
        )


def register_missing(
    registry: Registry, adapters: Mapping[str, AdapterConfig], *, base_model: str, actor: str
) -> list[str]:
    """Adds what is missing, and returns the names; a tenant without routes gets one to the base model as version 0."""
    before = registry.snapshot()
    refuse_mismatch(adapters, before, base_model)
    known = {adapter.adapter for adapter in before.adapters}
    added = [name for name in adapters if name not in known]
    for name in added:
        add_adapter(
            registry,
            name,
            tenant=adapters[name].tenant,
            base_model=base_model,
            actor=actor,
            reason=f"named in [trainer.adapters.{name}]",
        )
    return added
