"""An engine that was started anew between two cycles gets what users are served by loaded and proved again."""

from datetime import UTC, datetime

from collector.errors import EngineError, UserError
from collector.records import Version
from trainer.adapter_standing import shown
from trainer.cycle.cycle import Setting, site_of
from trainer.cycle.cycle_log import CycleLog
from trainer.cycle.publication import be_served


class Restoring:
    """Compares the registry with the engines; what could not be loaded once is left to the next cycle."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._left: set[str] = set()

    def look(self) -> list[str]:
        """Loads what is missing; a line for each version that was."""
        try:
            held = self._setting.parts.held().everywhere
        except EngineError:
            # One that does not answer can be given nothing; a cycle that is due says so.
            return []
        snapshot = self._setting.registry.snapshot()
        served = [
            version
            for version in snapshot.versions
            if version.version and version.adapter in self._setting.names and version.state in ("live", "canary")
        ]
        return [self._restored(each) for each in served if shown(each) not in held | self._left]

    def _restored(self, version: Version) -> str:
        setting = self._setting
        log = CycleLog(setting.history.number, setting.write, lambda: datetime.now(UTC), actor=setting.actor)
        with setting.reader.snapshot() as snapshot:
            contexts = setting.parts.contexts(snapshot, version.adapter)
        try:
            be_served(site_of(setting, log), version, contexts)
        except (EngineError, UserError) as error:
            self._left.add(shown(version))
            return f"{shown(version)} is missing on an engine, and was not loaded again: {error}"
        return f"{shown(version)} was missing on an engine; it is loaded and proved again"
