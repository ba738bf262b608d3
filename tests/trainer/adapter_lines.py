"""Adapters with versions, for tests of what becomes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collector.records import Version
from collector.store.registry import Registry
from trainer.adapters import add_adapter

WHY: dict[str, Any] = {"actor": "ana", "reason": "because"}
PASSED: dict[str, object] = {"verdict": "pass", "reasons": [], "numbers": {"held_out_score": 0.5}}


def loads(_: Version) -> None:
    """An engine that serves what it is asked to, and proves it."""


def add_bot(registry: Registry, adapter: str = "bot", tenant: str = "acme") -> None:
    """An adapter of a tenant."""
    add_adapter(registry, adapter, tenant=tenant, base_model="tiny", **WHY)


def add_version(
    registry: Registry,
    store: Path,
    version: int,
    *,
    parent: int | None = None,
    adapter: str = "bot",
    gate: Mapping[str, object] | None = PASSED,
) -> Version:
    """The next version, trained from the one before unless told, judged as given."""
    folder = f"adapters/{adapter}/{version}"
    (store / folder).mkdir(parents=True)
    made = registry.register_version(
        adapter,
        version,
        parent=version - 1 if parent is None else parent,
        optimizer_step=10 * version,
        folder=folder,
        sha256="ab" * 32,
        trained_on=[("collector", 10 * version, 10 * version + 4)],
        **WHY,
    )
    return made if gate is None else registry.record_gate(adapter, version, gate, **WHY)
