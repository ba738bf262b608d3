"""What a run that was cut short left behind, finished or undone; the table is in `publication.py`."""

from collector.records import Version
from collector.store.registry_rows import read_audit
from trainer.adapter_standing import gate_summary, shown, standing
from trainer.cycle.history import History
from trainer.cycle.outcome import AdapterOutcome, Ending
from trainer.cycle.ports import Contexts
from trainer.cycle.publication import Site, be_served, conclude, publish, settle


def recover(site: Site, adapter: str, history: History, contexts: Contexts) -> list[AdapterOutcome]:
    """Takes up the newest candidate that came to no ending, rejects older ones, and clears away what nobody needs."""
    restore(site, adapter, contexts)
    versions = [each for each in standing(site.registry.snapshot(), adapter).versions if each.version]
    open_ended = [each for each in versions if (adapter, each.version) not in history.endings]
    for each in open_ended:
        if each.state != "candidate" and (adapter, each.version) in history.begun:
            _write_ending(site, each)
    unended = [each for each in open_ended if each.state == "candidate"]
    outcomes = [conclude(site, each, "superseded", f"superseded by {shown(unended[-1])}") for each in unended[:-1]]
    if unended:
        outcomes.append(_take_up(site, unended[-1], contexts))
    settle(site, adapter)
    return outcomes


def restore(site: Site, adapter: str, contexts: Contexts) -> None:
    """Loads and proves again what users are served by, where an engine was started anew."""
    for version in standing(site.registry.snapshot(), adapter).versions:
        if version.state in ("live", "canary"):
            be_served(site, version, contexts)


def _write_ending(site: Site, version: Version) -> None:
    """The kill came between the registry's change and the event that tells of it."""
    changes = [
        row for row in read_audit(site.store) if (row.adapter, row.version) == (version.adapter, version.version)
    ]
    reason = changes[-1].reason
    ending: Ending = "routed"
    if version.state == "rejected":
        refused = gate_summary(version).verdict == "refuse"
        ending = "refused" if refused else "superseded" if reason.startswith("superseded") else "refuted"
    outcome = AdapterOutcome(
        adapter=version.adapter, ending=ending, reason=reason, version=version.version, recovered=True
    )
    site.log.ended(outcome, "gate" if ending == "refused" else "route")


def _take_up(site: Site, candidate: Version, contexts: Contexts) -> AdapterOutcome:
    now = standing(site.registry.snapshot(), candidate.adapter)
    if candidate.parent != now.live.version:
        reason = f"it was trained from version {candidate.parent}, and version {now.live.version} is live by now"
        return conclude(site, candidate, "superseded", reason)
    gate = gate_summary(candidate)
    said = "; ".join(gate.reasons) or "see its gate report"
    if gate.verdict == "refuse":
        return conclude(site, candidate, "refused", f"the gate refused it: {said}")
    if gate.verdict == "inconclusive":
        return conclude(site, candidate, "inconclusive", f"the gate holds it: {said}")
    return publish(site, candidate, contexts, recovered=True)
