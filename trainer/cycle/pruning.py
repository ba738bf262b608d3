"""The end of a cycle: files of versions that nobody will need again are deleted."""

from datetime import UTC, datetime

from collector.errors import EngineError, UserError
from collector.store.adapter_names import engine_name
from collector.store.registry_rows import RegistrySnapshot
from trainer.adapter_standing import standing
from trainer.cycle.publication import Site
from trainer.publish.kept_files import prune


def prune_files(site: Site) -> None:
    """Deletes them, and says what went; what cannot be done now is left to the next cycle."""
    if not site.publish.prune:
        return
    try:
        with site.log.stage("prune") as found:
            needed = site.parts.held().anywhere | compared_with(site.registry.snapshot())
            pruned = prune(site.store, config=site.publish, now=datetime.now(UTC), pinned=needed)
            kept = {each.name: each.reason for each in pruned.kept}
            found |= {"deleted": list(pruned.names), "bytes": pruned.bytes, "kept": kept}
            said = f"the files of {', '.join(pruned.names)} are deleted" if pruned.names else "nothing to delete"
            found["text"] = f"{said}, {len(kept)} kept"
    except (EngineError, UserError):
        # The stage has said so.
        return


def compared_with(registry: RegistrySnapshot) -> set[str]:
    """Engine names of the versions that the gate compares a candidate with."""
    best = {each.adapter: standing(registry, each.adapter).best for each in registry.adapters}
    return {engine_name(adapter, version) for adapter, version in best.items() if version}
