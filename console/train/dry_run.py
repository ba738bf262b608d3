"""`roundhouse train --dry-run`: what a cycle would train on now and why not on the rest; nothing is written."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from collector.records import Version
from collector.store.reader import Reader
from collector.store.registry_rows import RegistrySnapshot, read_registry
from collector.terminal_text import terminal_safe
from console.train.outputs import waiting_text
from trainer.adapter_standing import standing
from trainer.batch.collect import TABLES, collect_work
from trainer.batch.funnel_text import funnel_lines
from trainer.batch.work import AdapterWork, work_report
from trainer.config import TrainerConfig
from trainer.cycle.history import History
from trainer.cycle.registration import refuse_mismatch
from trainer.cycle.schedule import Due, Schedule, due


def dry_run(store: Path, config: TrainerConfig, names: tuple[str, ...], schedule: Schedule, *, as_json: bool) -> int:
    """Prints it; 0."""
    registry = read_registry(store)
    refuse_mismatch({name: config.adapters[name] for name in names}, registry, None)
    parents = parents_of(registry, names)
    now = datetime.now(UTC)
    history = History(config.adapters[name].tenant for name in names)
    with Reader(store).snapshot(TABLES) as snapshot:
        past = history.look(snapshot)
        steps = {name: parent.optimizer_step or 0 for name, parent in parents.items()}
        work = collect_work(snapshot, registry, config, now=now, steps=steps, parents=parents)
    chosen = [work[name] for name in names]
    if as_json:
        _print_json(chosen, parents)
    else:
        _print_text(chosen, parents, due(schedule, past, now) if schedule.repeats else None)
    return 0


def parents_of(registry: RegistrySnapshot, names: tuple[str, ...]) -> Mapping[str, Version]:
    """What each registered adapter would be trained from; one that has yet to be registered begins anew."""
    known = {adapter.adapter for adapter in registry.adapters}
    return {name: standing(registry, name).live for name in names if name in known}


def _print_json(work: list[AdapterWork], parents: Mapping[str, Version]) -> None:
    found = {
        "dry_run": True,
        "adapters": [
            {"parent": parents[each.adapter].version if each.adapter in parents else None, "work": work_report(each)}
            for each in work
        ],
    }
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.buffer.flush()


def _print_text(work: list[AdapterWork], parents: Mapping[str, Version], next_due: Due | None) -> None:
    for each in work:
        for line in funnel_lines(each):
            print(terminal_safe(line))
        print(f"  {_would(each, parents.get(each.adapter))}")
    if next_due is not None:
        print("a cycle is due now: " + next_due.reason if next_due.now else waiting_text(next_due))
    print("dry run: nothing was written")


def _would(work: AdapterWork, parent: Version | None) -> str:
    if not work.batches:
        return "nothing would be trained"
    start = "a new adapter" if parent is None or parent.version == 0 else f"version {parent.version}"
    return f"would take {len(work.batches)} optimizer steps from {start}"
