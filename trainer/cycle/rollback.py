"""An adapter that an alert takes back: the earlier version is loaded and proved first, then routed to."""

from datetime import UTC, datetime

from checks.alerting.alert_event import ALERT
from checks.readers.event_tail import EventTail
from collector.errors import EngineError, UserError
from collector.records import Event, Version
from trainer import adapters
from trainer.adapter_standing import standing
from trainer.cycle.cycle import Setting, site_of
from trainer.cycle.cycle_log import CycleLog
from trainer.cycle.ports import Contexts
from trainer.cycle.publication import Site, load, proof_of, settle_or_leave
from trainer.rollback_due import RollbackDue, rollback_due


class Rollbacks:
    """Follows the alerts of a store, whoever evaluates them, and rolls back what is configured to be."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._tail = EventTail()
        self._alerts: list[Event] = []
        self._refused: set[tuple[str, str]] = set()

    def look(self) -> list[str]:
        """Does what is due; a line for each thing that a person should know."""
        setting = self._setting
        config = setting.config.rollback
        if not config.on_alerts:
            return []
        with setting.reader.snapshot(["events"]) as snapshot:
            self._alerts += self._tail.new(snapshot, (ALERT,))
        due = rollback_due(self._alerts, config, setting.registry.snapshot(), now=datetime.now(UTC))
        lines = [self._done(each) for each in due.rollbacks if each.adapter in setting.names]
        for each in due.refused:
            if (each.rule, each.reason) not in self._refused:
                self._refused.add((each.rule, each.reason))
                lines.append(f"alert {each.rule} fires, and nothing is rolled back: {each.reason}")
        return lines

    def _done(self, due: RollbackDue) -> str:
        setting = self._setting
        log = CycleLog(setting.history.number, setting.write, lambda: datetime.now(UTC), actor=setting.actor)
        try:
            site = site_of(setting, log)
            with setting.reader.snapshot() as snapshot:
                contexts = setting.parts.contexts(snapshot, due.adapter)
            roll_back(site, due, contexts)
        except (EngineError, UserError) as error:
            log.note("rollback", f"{due.adapter} was not rolled back: {error}", adapter=due.adapter)
            return f"{due.adapter} should be rolled back to version {due.to} ({due.reason}), but: {error}"
        return f"{due.adapter} was rolled back from version {due.version} to {due.to}, and is held: {due.reason}"


def roll_back(site: Site, due: RollbackDue, contexts: Contexts) -> None:
    """Takes one adapter back; nothing changes where the earlier version cannot be proved to be served."""

    def served(target: Version) -> None:
        if target.version == 0:
            return
        load(site, target)
        proof = proof_of(site, target, standing(site.registry.snapshot(), due.adapter).live, contexts)
        if proof.verdict != "proved":
            raise UserError(f"version {target.version} is not proved to be served: {proof.text}")

    snapshot = site.registry.snapshot()
    if (live := standing(snapshot, due.adapter).live.version) != due.version:
        raise UserError(f"version {live} is live by now, and the alert was about version {due.version}")
    changed = adapters.rollback(
        site.registry,
        due.adapter,
        due.to,
        load=served,
        actor=site.actor,
        reason=due.reason,
        seen=snapshot.revision,
    )
    adapters.wait_for_readers(site.registry, changed.revision, site.publish.acknowledge_limit_s)
    site.log.note("rollback", f"{due.adapter}: back to version {due.to}: {due.reason}", adapter=due.adapter)
    settle_or_leave(site, due.adapter)
