"""One cycle: collect, train, register; load, prove, evaluate, judge, route each candidate; delete what nobody needs.

A cycle may be killed at any moment and is never resumed in the middle: the next one first finishes or undoes what is
there (`recovery.py`; the states are in `publication.py`), then collects anew. The registry says what is true; the
events of the store say what was being done; neither is trusted about what an engine serves, which is proved again.
What goes wrong for one adapter does not stop the others.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from collector.errors import EngineError, UserError
from collector.records import Record, Version
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.snapshot import Snapshot
from trainer.adapter_standing import standing
from trainer.config import TrainerConfig
from trainer.cycle.cycle_log import CycleLog
from trainer.cycle.history import History
from trainer.cycle.outcome import AdapterOutcome, CycleOutcome
from trainer.cycle.ports import Collected, Contexts, Made, Parts
from trainer.cycle.pruning import prune_files
from trainer.cycle.publication import Site, publish
from trainer.cycle.recovery import recover
from trainer.cycle.registration import register_missing


class Setting(NamedTuple):
    """What a cycle works on."""

    store: Path
    config: TrainerConfig
    names: tuple[str, ...]
    """The adapters that are trained."""
    reader: Reader
    registry: Registry
    parts: Parts
    history: History
    write: Callable[[Record], None]
    """Returns when the record is durable."""
    check: Callable[[], None] = lambda: None
    """Called before each stage; raises where the process was told to stop."""

    @property
    def actor(self) -> str:
        """Who changes the registry."""
        return self.config.writer


def run_cycle(setting: Setting, started_by: str) -> CycleOutcome:
    """One cycle, to its end. EngineError or UserError from here means that it did not begin."""
    base_model = setting.parts.base_model()
    chosen = {name: setting.config.adapters[name] for name in setting.names}
    register_missing(setting.registry, chosen, base_model=base_model, actor=setting.actor)
    with setting.reader.snapshot() as snapshot:
        setting.history.look(snapshot)
        log = CycleLog(setting.history.number + 1, setting.write, _now, actor=setting.actor)
        site = site_of(setting, log)
        began_at = log.begin(started_by, setting.history.feedback_seen)
        contexts = {name: setting.parts.contexts(snapshot, name) for name in setting.names}
    outcomes: list[AdapterOutcome] = []
    for name in setting.names:
        outcomes += _guarded(log, name, lambda name=name: recover(site, name, setting.history, contexts[name]))
    outcomes += _fresh(setting, site, contexts)
    prune_files(site)
    return CycleOutcome(
        cycle=log.number,
        began_at=began_at,
        ended_at=log.end(tuple(outcomes)),
        started_by=started_by,
        adapters=tuple(outcomes),
    )


def site_of(setting: Setting, log: CycleLog) -> Site:
    """Where a cycle, or what is done between two, works."""
    held = setting.parts.held()
    return Site(
        store=setting.store,
        registry=setting.registry,
        parts=setting.parts,
        log=log,
        write=setting.write,
        check=setting.check,
        loaded=_versions(held.anywhere, setting.names),
        served=_versions(held.everywhere, setting.names),
        actor=setting.actor,
        publish=setting.config.publish,
    )


def _versions(names: Collection[str], adapters: Collection[str]) -> set[tuple[str, int]]:
    """The versions of these adapters among an engine's names, which may be anybody's."""
    known = [name.rpartition("@") for name in names]
    return {(adapter, int(number)) for adapter, _, number in known if adapter in adapters and number.isdecimal()}


def _fresh(setting: Setting, site: Site, contexts: Mapping[str, Contexts]) -> list[AdapterOutcome]:
    """What comes of the feedback that is new."""
    site.check()
    parents, outcomes = _parents(setting, site.log)
    collected, ended = _collect(setting, site.log, parents)
    outcomes += ended
    if not collected:
        return outcomes
    site.check()
    made, failed = _train(setting, site.log, collected, parents)
    outcomes += failed
    candidates: list[Version] = []
    for name, each in made.items():
        outcomes += _guarded(
            site.log, name, lambda n=name, m=each: candidates.append(_register(site, n, m, parents[n]))
        )
    for candidate in candidates:
        outcomes += _guarded(
            site.log,
            candidate.adapter,
            lambda c=candidate: [publish(site, c, contexts[c.adapter], recovered=False)],
        )
    return outcomes


def _parents(setting: Setting, log: CycleLog) -> tuple[dict[str, Version], list[AdapterOutcome]]:
    """What each adapter is trained from, and an ending for every one that has no live version."""
    parents: dict[str, Version] = {}
    outcomes: list[AdapterOutcome] = []
    for name in setting.names:
        outcomes += _guarded(
            log, name, lambda n=name: parents.update({n: standing(setting.registry.snapshot(), n).live})
        )
    return parents, outcomes


def _collect(
    setting: Setting, log: CycleLog, parents: Mapping[str, Version]
) -> tuple[dict[str, Collected], list[AdapterOutcome]]:
    """What can be trained on, and an ending for every adapter without."""
    with log.stage("collect"), setting.reader.snapshot() as snapshot:
        found = _collected(setting, snapshot, parents)
    ready: dict[str, Collected] = {}
    outcomes: list[AdapterOutcome] = []
    for name, work in found.items():
        if isinstance(work, str):
            outcomes.append(_failed(log, name, work))
            continue
        counted = {"batches": work.batches, "sessions": work.sessions, "turns": work.turns, "funnel": dict(work.funnel)}
        log.done("collect", name, work.reason or f"{work.turns} turns of {work.sessions} sessions", counted)
        if work.batches:
            ready[name] = work
            continue
        outcome = AdapterOutcome(
            adapter=name,
            ending="nothing_new",
            reason=work.reason,
            parent=parents[name].version,
            numbers={"collect": counted},
        )
        log.ended(outcome, "collect")
        outcomes.append(outcome)
    return ready, outcomes


def _collected(setting: Setting, snapshot: Snapshot, parents: Mapping[str, Version]) -> Mapping[str, Collected | str]:
    """In place of what cannot be collected there is the reason: a damaged checkpoint is its own adapter's alone."""
    registry, now = setting.registry.snapshot(), _now()
    try:
        return setting.parts.collect(snapshot, registry, parents, now)
    except (EngineError, UserError):
        found: dict[str, Collected | str] = {}
        for name, parent in parents.items():
            try:
                found |= setting.parts.collect(snapshot, registry, {name: parent}, now)
            except (EngineError, UserError) as error:
                found[name] = str(error)
        return found


def _train(
    setting: Setting, log: CycleLog, collected: Mapping[str, Collected], parents: Mapping[str, Version]
) -> tuple[Mapping[str, Made], list[AdapterOutcome]]:
    """Checkpoints on disk, and an ending for every adapter that has none."""
    try:
        with log.stage("train") as found:
            found["adapters"] = list(collected)
            answered = setting.parts.train(collected, {name: parents[name] for name in collected})
    except (EngineError, UserError) as error:
        return {}, [_failed(log, name, str(error)) for name in collected]
    made = {name: each for name, each in answered.items() if not isinstance(each, str)}
    for name, each in made.items():
        log.done("train", name, f"{each.steps} steps, now at {each.optimizer_step}", dict(each.numbers))
    return made, [_failed(log, name, each) for name, each in answered.items() if isinstance(each, str)]


def _register(site: Site, name: str, made: Made, parent: Version) -> Version:
    version = len(standing(site.registry.snapshot(), name).versions)
    with site.log.stage("register", name, version) as found:
        found |= {"parent": parent.version, "optimizer_step": made.optimizer_step, "sha256": made.sha256}
        return site.registry.register_version(
            name,
            version,
            parent=parent.version,
            optimizer_step=made.optimizer_step,
            folder=str(made.folder.resolve().relative_to(site.store.resolve())),
            sha256=made.sha256,
            trained_on=made.trained_on,
            actor=site.actor,
            reason=f"cycle {site.log.number}: {made.steps} steps from version {parent.version}",
        )


def _guarded(log: CycleLog, adapter: str, act: Callable[[], list[AdapterOutcome] | None]) -> list[AdapterOutcome]:
    """What an act comes to; what fails in it is the adapter's ending, and no other's."""
    try:
        return act() or []
    except (EngineError, UserError) as error:
        return [_failed(log, adapter, str(error))]


def _failed(log: CycleLog, adapter: str, reason: str) -> AdapterOutcome:
    outcome = AdapterOutcome(adapter=adapter, ending="failed", reason=reason)
    log.note("end", f"{adapter} failed: {reason}", adapter=adapter)
    return outcome


def _now() -> datetime:
    return datetime.now(UTC)
