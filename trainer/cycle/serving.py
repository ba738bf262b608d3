"""A version that a person routes to: loaded on the engines, and proved to be what they serve."""

from collections.abc import Callable
from pathlib import Path

from collector.errors import UserError
from collector.records import Record, Version
from collector.store.reader import Reader
from collector.store.registry_rows import RegistrySnapshot
from trainer.adapter_standing import shown, standing
from trainer.cycle.contexts import recent_contexts
from trainer.cycle.ports import Parts
from trainer.cycle.registration import refuse_other_base_model


def load_and_prove(
    store: Path, version: Version, registry: RegistrySnapshot, parts: Parts, write: Callable[[Record], None]
) -> None:
    """Loads a version and proves it, by what it, the live version and the base predict differently.

    The proof's events are written whatever they say. UserError or EngineError where the version cannot be loaded, or
    is not proved. Where a worker does not hold the live version, the proof measures its noise on the base model.
    """
    now = standing(registry, version.adapter)
    refuse_other_base_model(now.adapter, parts.base_model())
    if version.folder is None:
        raise UserError(f"{shown(version)} has no folder, expected a version that was trained")
    with Reader(store).snapshot() as snapshot:
        contexts = recent_contexts(snapshot, now.adapter.tenant, version.adapter)
    in_use = {shown(each) for each in registry.versions if each.version and each.state in ("live", "canary")}
    parts.load(shown(version), store / version.folder, in_use)
    known = now.live if shown(now.live) in parts.held().everywhere else now.versions[0]
    proof = parts.prove(version, known, contexts)
    for event in proof.events:
        write(event)
    if proof.verdict != "proved":
        raise UserError(f"{shown(version)} is not proved to be served: {proof.text}")
