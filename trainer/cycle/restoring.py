"""An engine that was started anew between two cycles gets what users are served by loaded and proved again."""

import time
from datetime import UTC, datetime

from collector.errors import EngineError, UserError
from collector.records import Version
from trainer.adapter_standing import shown
from trainer.cycle.cycle import Setting, site_of
from trainer.cycle.cycle_log import CycleLog
from trainer.cycle.publication import be_served


class Restoring:
    """Compares the registry with the engines and the store's proofs; what could not be done is tried again later."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._left: dict[str, tuple[float, str]] = {}

    def look(self) -> list[str]:
        """Loads what is missing; a line for each version that was."""
        try:
            held = self._setting.parts.held().everywhere
        except (EngineError, UserError):
            # One that does not answer can be given nothing; a cycle that is due says so.
            return []
        snapshot = self._setting.registry.snapshot()
        served = [
            version
            for version in snapshot.versions
            if version.version and version.adapter in self._setting.names and version.state in ("live", "canary")
        ]
        missing = [each for each in served if shown(each) not in held and self._may_try(shown(each))]
        return [line for each in missing if (line := self._restored(each)) is not None]

    def _may_try(self, name: str) -> bool:
        last = self._left.get(name)
        return last is None or time.monotonic() - last[0] >= self._setting.config.schedule.retry_s

    def _restored(self, version: Version) -> str | None:
        """What a person should know; None where the same was said the last time."""
        setting, name = self._setting, shown(version)
        log = CycleLog(setting.history.number, setting.write, lambda: datetime.now(UTC), actor=setting.actor)
        with setting.reader.snapshot() as snapshot:
            contexts = setting.parts.contexts(snapshot, version.adapter)
        try:
            be_served(site_of(setting, log), version, contexts)
            everywhere = name in setting.parts.held().everywhere
        except (EngineError, UserError) as error:
            return self._leave(name, f"{name} is missing on an engine, and was not loaded again: {error}")
        if not everywhere:
            return self._leave(name, f"{name} is served by enough engines, and not yet by every one")
        self._left.pop(name, None)
        return f"{name} was missing on an engine, or not proved there; it is loaded and proved again"

    def _leave(self, name: str, why: str) -> str | None:
        """Leaves a version for a while; says why where that is new."""
        said = self._left.get(name)
        self._left[name] = (time.monotonic(), why)
        return None if said is not None and said[1] == why else why
