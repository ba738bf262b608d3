"""A store of eight adapters, each in a state of its own or nearly so, as they are held."""

from datetime import timedelta
from pathlib import Path

from msgspec import json, structs

from collector.store.registry import Registry
from collector.store.registry_rows import read_audit
from console.watch.held import Held
from tests.console.watch.fake_feed import NOW, held
from tests.console.watch.incident_store import incident
from tests.console.watch.small_held import ago, frame, turn
from tests.trainer.adapter_lines import WHY, add_bot, add_version, loads
from trainer.adapters import canary, hold, promote

STATES = {
    "billing-lora": "LIVE",
    "fraud-lora": "CANARY",
    "kyc-lora": "PARKED",
    "refund-lora": "HELD",
    "router-lora": "GATE",
    "sql-lora": "CANDIDATE",
    "tone-lora": "REJECTED",
    "triage-lora": "LIVE",
}
"""Adapter to the word of its state."""
REFUSED: dict[str, object] = {"verdict": "refuse", "reasons": ["score fell"], "numbers": {}}


def write_registry(store: Path) -> None:
    """The registry of them: each has a live version, and what its state needs beside."""
    with Registry(store) as registry:
        for adapter, state in STATES.items():
            add_bot(registry, adapter, tenant=f"tenant-of-{adapter}")
            add_version(registry, store, 1, adapter=adapter)
            promote(registry, adapter, 1, load=loads, **WHY)
            if state in ("CANARY", "GATE", "CANDIDATE", "HELD"):
                add_version(registry, store, 2, adapter=adapter)
            if state == "REJECTED":
                add_version(registry, store, 2, adapter=adapter, gate=REFUSED)
                registry.change_state(adapter, 2, expected="candidate", to="rejected", **WHY)
            if state == "CANARY":
                canary(registry, adapter, 2, 0.25, load=loads, **WHY)
            if state == "HELD":
                hold(registry, adapter, **WHY)


def eight_adapters(store: Path) -> Held:
    """They with traffic, but for the parked one, 240 steps each, and a cycle at the gate of one."""
    write_registry(store)
    with Registry(store) as registry:
        snapshot, audit = registry.snapshot(), tuple(read_audit(store))
    since = NOW - timedelta(hours=2)
    snapshot = snapshot._replace(
        versions=tuple(structs.replace(each, created_at=since, changed_at=since) for each in snapshot.versions),
        decisions=tuple(structs.replace(each, at=since) for each in snapshot.decisions),
    )
    served = [adapter for adapter, state in STATES.items() if state != "PARKED"]
    turns = [turn(f"s-{at}", 1, 30 + at, adapter=adapter, adapter_version=1) for at, adapter in enumerate(served)]
    stages = [{"stage": name, "state": "begun", "cycle": 4} for name in ("begin", "gate")]
    cycle = [
        {"at": ago(60 - at), "kind": "cycle", "adapter": "router-lora", "detail": json.encode(stage).decode()}
        for at, stage in enumerate(stages)
    ]
    return held(
        registry=snapshot,
        audit=tuple(structs.replace(each, at=since) for each in audit),
        turns=frame("turns", turns),
        events=frame("events", cycle),
        steps=incident(adapters=tuple(STATES)).steps,
    )
