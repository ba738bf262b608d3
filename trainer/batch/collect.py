"""From a store to the work of a cycle: what each configured adapter trains on, and what became of every other turn."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from collector.errors import UserError
from collector.records import Version
from collector.store.registry_rows import RegistrySnapshot
from collector.store.snapshot import Snapshot
from trainer.batch.adapter_plan import AdapterPlan, plan_adapter
from trainer.batch.assembly import update_batch
from trainer.batch.lineage import Lineage
from trainer.batch.own_turns import OwnTurns
from trainer.batch.session_rewards import SessionRewards
from trainer.batch.tenant_capture import read_captures
from trainer.batch.token_ids import read_ids
from trainer.batch.work import AdapterWork
from trainer.config import TrainerConfig

TABLES = ("turns", "feedback", "events")
"""What a snapshot must hold to collect work from."""


def collect_work(
    snapshot: Snapshot,
    registry: RegistrySnapshot,
    config: TrainerConfig,
    *,
    now: datetime,
    steps: Mapping[str, int],
    parents: Mapping[str, Version] | None = None,
    baselines: Mapping[str, float | None] | None = None,
) -> dict[str, AdapterWork]:
    """Adapter to its work.

    `steps` is adapter to the optimizer step that its weights stand at; `parents` to the version they continue from,
    the newest live one where none is named; `baselines` to the running reward baseline of its last checkpoint.
    """
    captures = read_captures(snapshot, {settings.tenant for settings in config.adapters.values()})
    rewards = {tenant: SessionRewards(capture, config.reward, now=now) for tenant, capture in captures.items()}
    tenants = Counter(settings.tenant for settings in config.adapters.values())
    plans: dict[str, AdapterPlan] = {}
    for adapter, settings in config.adapters.items():
        own = OwnTurns(
            Lineage(registry, adapter, parent=(parents or {}).get(adapter), step=steps.get(adapter)),
            captures[settings.tenant],
            only_adapter=tenants[settings.tenant] == 1,
            base_model=_base_model(registry, adapter, settings.tenant),
            untrained_events=config.batch.untrained_events,
        )
        baseline = (baselines or {}).get(adapter)
        plans[adapter] = plan_adapter(
            own,
            rewards[settings.tenant],
            baseline,
            config.batch,
            updates_per_batch=config.training.updates_per_batch,
        )
    ids = read_ids(snapshot, [turn for plan in plans.values() for turn in plan.turns])
    return {
        adapter: AdapterWork(
            adapter=adapter,
            tenant=config.adapters[adapter].tenant,
            batches=tuple(update_batch(plan, batch, ids) for batch in plan.batches),
            funnel=plan.funnel,
            response=plan.response,
            new_feedback=plan.new_feedback,
            baseline=plan.baseline,
        )
        for adapter, plan in plans.items()
    }


def _base_model(registry: RegistrySnapshot, adapter: str, tenant: str) -> str | None:
    """What the registry says the adapter is trained on; None for an adapter that has yet to be registered."""
    known = next((each for each in registry.adapters if each.adapter == adapter), None)
    if known is not None and known.tenant != tenant:
        raise UserError(
            f"[trainer.adapters.{adapter}] tenant is {tenant!r}, but the registry has it as {known.tenant!r}'s; "
            "correct the tenant or choose another name"
        )
    return None if known is None else known.base_model
