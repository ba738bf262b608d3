"""A candidate on its way to its users: loaded, proved, evaluated, judged, routed to; the old version drained, unloaded.

Every step is safe to be the last one. What the next run finds, and does:

| registry           | gate report  | last event            | what is done                                             |
| ------------------ | ------------ | --------------------- | -------------------------------------------------------- |
| nothing, a folder  | -            | train begun           | the parent is trained again; the folder is left alone    |
| candidate          | none, pass   | anything but an ending| taken up here: loaded, proved, evaluated and judged anew |
| candidate          | refuse       | anything but an ending| rejected                                                 |
| candidate          | inconclusive | anything but an ending| ends as inconclusive                                     |
| candidate          | any          | ended                 | stays as it is, for a person                             |
| live, routed       | pass         | anything              | nothing: states and routes change in one transaction     |
| live, not routed   | pass         | anything              | drained, retired, unloaded                               |
| rejected, retired  | any          | anything              | unloaded, where an engine still holds it                 |
| live, canary       | any          | anything              | loaded and proved, where an engine was started anew      |

A candidate is taken up only while what it was trained from is still live, and only the newest one of its adapter;
others are rejected as superseded. The proof is repeated in any case, since the engine may have been started anew:
nothing is routed to that this process has not proved.
"""

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from collector.errors import EngineError, UserError
from collector.records import Record, Version
from collector.store.adapter_names import engine_name
from collector.store.registry import Registry
from trainer import adapters
from trainer.adapter_standing import Standing, gate_summary, shown, standing
from trainer.cycle.cycle_log import CycleLog
from trainer.cycle.early_ending import Ended, refuse_decided, refuse_held, refuse_overtaken
from trainer.cycle.outcome import AdapterOutcome, Ending
from trainer.cycle.ports import Contexts, Evaluated, Judged, Parts, Proved
from trainer.publish_config import PublishConfig


class Site(NamedTuple):
    """Where a cycle works."""

    store: Path
    registry: Registry
    parts: Parts
    log: CycleLog
    write: Callable[[Record], None]
    check: Callable[[], None]
    """Called before each stage; raises where the process was told to stop."""
    loaded: set[tuple[str, int]]
    """Versions that some engine may hold."""
    served: set[tuple[str, int]]
    """Versions that every engine holds and is proved to serve."""
    actor: str
    publish: PublishConfig


def publish(site: Site, candidate: Version, contexts: Contexts, *, recovered: bool) -> AdapterOutcome:
    """Brings a candidate as far as it gets; its ending is in the log."""
    numbers: dict[str, object] = {}
    try:
        _route(site, candidate, _to_the_gate(site, candidate, contexts, numbers))
        ended = Ended("unload", "routed", _routed_reason(site, candidate))
        settle_or_leave(site, candidate.adapter)
    except Ended as early:
        ended = early
        if ended.ending in ("refuted", "refused", "superseded"):
            reject(site, candidate, str(ended))
        unload(site, candidate)
        unload_retired(site, candidate.adapter)
    except (EngineError, UserError) as error:
        ended = Ended("load", "failed", f"{engine_name(candidate.adapter, candidate.version)}: {error}")
    outcome = AdapterOutcome(
        adapter=candidate.adapter,
        ending=ended.ending,
        reason=str(ended),
        version=candidate.version,
        parent=candidate.parent,
        recovered=recovered,
        numbers=numbers,
    )
    # A stage that failed says so itself; without an ending the candidate is taken up again.
    if ended.ending != "failed":
        site.log.ended(outcome, ended.stage)
    return outcome


def conclude(site: Site, candidate: Version, ending: Ending, reason: str) -> AdapterOutcome:
    """Ends a candidate that an earlier run left behind, without taking it up."""
    if ending in ("refused", "superseded"):
        reject(site, candidate, reason)
    unload(site, candidate)
    outcome = AdapterOutcome(
        adapter=candidate.adapter,
        ending=ending,
        reason=reason,
        version=candidate.version,
        parent=candidate.parent,
        recovered=True,
    )
    site.log.ended(outcome, "gate")
    return outcome


def settle_or_leave(site: Site, adapter: str) -> None:
    """Users have another version by now: what fails here is left to the next cycle, and is no fault of that version."""
    try:
        settle(site, adapter)
    except (EngineError, UserError) as error:
        site.log.note(
            "drain", f"{adapter}: the version before stays loaded until the next cycle: {error}", adapter=adapter
        )


def settle(site: Site, adapter: str) -> None:
    """Drains, retires and unloads what is live without new sessions, and unloads whatever else nobody needs."""
    late: set[int] = set()
    for old in adapters.superseded(site.registry.snapshot(), adapter):
        site.check()
        reason = "superseded by the version that its sessions go to"
        with site.log.stage("drain", adapter, old.version) as found:
            changed = adapters.retire(site.registry, adapter, old.version, actor=site.actor, reason=reason)
            _follow(site, changed.revision, found)
            # For calls that a collector had sent already.
            time.sleep(site.publish.settle_s)
        if found["behind"]:
            late.add(old.version)
    unload_retired(site, adapter, late)


def unload_retired(site: Site, adapter: str, late: Collection[int] = ()) -> None:
    """Unloads what came to its end, but for the versions that a collector may still send to."""
    for version in standing(site.registry.snapshot(), adapter).versions:
        if version.state in ("retired", "rejected") and version.version not in late:
            unload(site, version)


def reject(site: Site, candidate: Version, reason: str) -> None:
    """Ends a candidate for good."""
    adapters.reject(site.registry, candidate.adapter, candidate.version, actor=site.actor, reason=reason)


def unload(site: Site, version: Version) -> None:
    """Unloads a version if an engine may hold it; one that hangs is left behind and tried again by the next cycle."""
    key = (version.adapter, version.version)
    # Looked up anew: a person may have promoted it, tried it as a canary or gone back to it meanwhile.
    if key not in site.loaded or shown(version) in _in_use(site):
        return
    try:
        with site.log.stage("unload", *key) as found:
            done = site.parts.unload(engine_name(*key))
            found |= {"gone": done.gone, "text": done.text}
    except (EngineError, UserError):
        return
    if done.gone:
        site.loaded.discard(key)
        site.served.discard(key)


def load(site: Site, version: Version) -> None:
    """Loads a version on enough workers; EngineError where that cannot be."""
    assert version.folder is not None, "only the base model has no folder"
    site.check()
    key = (version.adapter, version.version)
    site.loaded.add(key)
    with site.log.stage("load", *key) as found:
        loaded = site.parts.load(engine_name(*key), site.store / version.folder, _in_use(site))
        found |= {**loaded.numbers, "text": loaded.text}
    site.served.add(key)


def proof_of(site: Site, version: Version, other: Version, contexts: Contexts) -> Proved:
    """Whether the engine serves a version and not another one; the proof's events are written."""
    site.check()
    with site.log.stage("prove", version.adapter, version.version) as found:
        proof = site.parts.prove(version, other, contexts)
        for event in proof.events:
            site.write(event)
        found |= {"verdict": proof.verdict, "text": proof.text}
    return proof


def _to_the_gate(site: Site, candidate: Version, contexts: Contexts, numbers: dict[str, object]) -> Standing:
    """Everything before users see it; raises `Ended` where it ends here. How the adapter stood when it was judged."""
    now = standing(site.registry.snapshot(), candidate.adapter)
    refuse_overtaken(candidate, now)
    # The version before is what the proof measures noise on.
    be_served(site, now.live, contexts)
    load(site, candidate)
    proof = proof_of(site, candidate, now.live, contexts)
    if proof.verdict != "proved":
        raise Ended("prove", proof.verdict, proof.text)
    best = now.versions[now.best]
    be_served(site, best, contexts)
    evaluated = _evaluate(site, candidate, now.live, best)
    judged = _judge(site, candidate, now.live, evaluated, contexts)
    numbers["gate"] = dict(judged.report)
    if judged.verdict == "refuse":
        raise Ended("gate", "refused", f"the gate refused it: {judged.text}")
    if judged.verdict == "inconclusive":
        raise Ended("gate", "inconclusive", f"the gate holds it: {judged.text}")
    return now


def be_served(site: Site, version: Version, contexts: Contexts) -> None:
    """Loads a version that no engine holds any more, and proves it against the base model."""
    if version.version == 0 or (version.adapter, version.version) in site.served:
        return
    load(site, version)
    base = standing(site.registry.snapshot(), version.adapter).versions[0]
    proof = proof_of(site, version, base, contexts)
    if proof.verdict != "proved":
        raise UserError(f"{shown(version)} is not proved to be served: {proof.text}")


def _in_use(site: Site) -> set[str]:
    """Engine names that users are served by."""
    versions = site.registry.snapshot().versions
    return {shown(each) for each in versions if each.version and each.state in ("live", "canary")}


def _evaluate(site: Site, candidate: Version, live: Version, best: Version) -> Evaluated:
    site.check()
    with site.log.stage("evaluate", candidate.adapter, candidate.version) as found:
        # Versions, not cycles, walk through the suite: a cycle without a candidate would use up a slice, and a second
        # try at the same candidate would get another chance.
        evaluated = site.parts.evaluate(candidate, live, best, candidate.version - 1)
        for record in evaluated.evals:
            site.write(record)
        found |= {"samples": len(evaluated.evals), "text": evaluated.text}
    return evaluated


def _judge(site: Site, candidate: Version, live: Version, evaluated: Evaluated, contexts: Contexts) -> Judged:
    site.check()
    adapter, version = candidate.adapter, candidate.version
    with site.log.stage("gate", adapter, version) as found:
        judged = site.parts.judge(candidate, live, evaluated, contexts)
        refuse_decided(standing(site.registry.snapshot(), adapter).versions[version])
        site.registry.record_gate(adapter, version, judged.report, actor=site.actor, reason=judged.text)
        found |= {"verdict": judged.verdict, "text": judged.text}
    return judged


def _route(site: Site, candidate: Version, judged_at: Standing) -> None:
    site.check()
    adapter, version = candidate.adapter, candidate.version
    snapshot = site.registry.snapshot()
    now = standing(snapshot, adapter)
    refuse_decided(now.versions[version])
    refuse_overtaken(candidate, now)
    if now.best != judged_at.best:
        # Without an ending it is taken up again.
        raise UserError(
            f"version {now.best} became what the gate compares with while version {judged_at.best} was compared with; "
            "the next cycle judges it again"
        )
    refuse_held(now)
    try:
        with site.log.stage("route", adapter, version) as found:
            changed = adapters.promote(
                site.registry,
                adapter,
                version,
                load=lambda _: _refuse_gone(site, candidate),
                actor=site.actor,
                reason="proved, and passed the gate",
                automatic=True,
                seen=snapshot.revision,
            )
            found["from"] = changed.before
            _follow(site, changed.revision, found)
    except adapters.Refused as refusal:
        raise Ended("route", "held", str(refusal)) from refusal
    for older in standing(site.registry.snapshot(), adapter).versions[:version]:
        if older.state == "candidate":
            reject(site, older, f"superseded: version {version} went live")


def _follow(site: Site, revision: int, found: dict[str, object]) -> None:
    """Waits until the collectors act on a revision; those that do not in time are named."""
    limit_s = site.publish.acknowledge_limit_s
    behind = [reader.reader for reader in adapters.wait_for_readers(site.registry, revision, limit_s)]
    found |= {"revision": revision, "behind": behind}
    if behind:
        found["text"] = f"{', '.join(behind)} did not follow in {limit_s:g} s"


def _refuse_gone(site: Site, candidate: Version) -> None:
    """The stages before have loaded and proved it; an engine that was started anew since has forgotten it."""
    held = site.parts.held()
    if shown(candidate) not in (held.anywhere if site.publish.enough is not None else held.everywhere):
        raise EngineError(f"{shown(candidate)} is not loaded any more: was an engine started anew? it is not routed to")


def _routed_reason(site: Site, candidate: Version) -> str:
    score = gate_summary(standing(site.registry.snapshot(), candidate.adapter).versions[candidate.version]).score
    held_out = "" if score is None else f", held-out score {score:.3f}"
    return f"version {candidate.version} takes the new sessions (before: version {candidate.parent}{held_out})"
