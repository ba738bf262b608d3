"""One engine worker as a collector knows it: whether it answers, which process it is, what it has loaded."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from collector.engine.adapter_slots import slots_of
from collector.engine.process_identity import identity
from collector.engine.wire import ModelInfo, WorkerLoad
from collector.errors import EngineError, EngineUnavailable
from collector.ports import Engine
from collector.served_model import ServedModel

_log = logging.getLogger(__name__)
_ASK_SETTINGS_EVERY_S = 10.0
_SILENT_LOOKS = 2
"""Looks that a busy worker may leave unanswered."""


class WorkerEngine(Engine, Protocol):
    """An engine that can be asked what it has, and given adapters."""

    async def loaded_adapters(self) -> dict[str, str]: ...

    async def load_adapter(self, name: str, path: Path, *, pinned: bool = False) -> None: ...

    # Any: an engine's own settings.
    async def server_info(self) -> dict[str, Any]: ...

    async def loads(self) -> list[WorkerLoad]: ...


class Worker:
    """Changed by its own looks and by what becomes of the turns it is sent."""

    def __init__(self, url: str, engine: WorkerEngine, served: ServedModel) -> None:
        self.url = url
        self.engine = engine
        self.served = served
        """Whether its base model is the collector's."""
        self.running = 0
        """Turns of this collector that it samples for now."""
        self.fault: str | None = None
        """Why it is left alone; None while it answers."""
        self.lost_at: datetime | None = None
        """When it was last found not to answer, UTC."""
        self.lost_total = 0
        """How often that was."""
        self.dumb: str | None = None
        """Why it cannot be asked what it has loaded; None while it can."""
        self.takes_requests = True
        """Whether it said so; a worker whose weights change does not, and lives."""
        self.process: str | None = None
        """Which start of it this is; None while that is not known."""
        self.restarted_total = 0
        """How often another process answered than before."""
        self.loaded: Mapping[str, str] = {}
        """Engine name to folder, as it sees it."""
        self.slots: int | None = None
        """Adapters that it can keep loaded; None when it does not say."""
        self.loads: list[WorkerLoad] | None = None
        """How busy it said to be when it was last asked; None when it does not say."""
        self.looked = asyncio.Event()
        """Set once it has answered what it has loaded."""
        self._seen_process: str | None = None
        self._info: ModelInfo | None = None
        self._settings_at: float | None = None
        self._silent = 0

    @property
    def busy(self) -> int:
        """Requests that it has to do with: as it says, or as this collector knows, whichever is more."""
        told = sum(each.num_running_reqs + each.num_waiting_reqs for each in self.loads or ())
        return max(told, self.running)

    def lose(self, why: str) -> None:
        """It does not answer: until it does nothing is known of it, and a proof of the process it was is void."""
        if self.fault is None:
            self.lost_total += 1
            _log.warning("engine worker %s is left: %s", self.url, why)
        self.fault = why
        self.lost_at = datetime.now(UTC)
        self.process, self._settings_at = None, None
        self.loaded, self.loads = {}, None
        self.looked.clear()

    def forgot(self, name: str) -> None:
        """It refused a name as one that it does not have."""
        self.loaded = {known: folder for known, folder in self.loaded.items() if known != name}
        # It may be another process than was asked last.
        self._settings_at = None

    async def look(self, limit_s: float) -> None:
        """Asks it what it is and has, and how busy it is."""
        try:
            async with asyncio.timeout(limit_s):
                await self._ask()
        except TimeoutError:
            self._silent += 1
            if self._silent >= _SILENT_LOOKS:
                self.lose(f"it gave no answer in {limit_s:g} s")
        except EngineUnavailable as error:
            self.lose(str(error))
        except EngineError as error:
            # It lives, and what it says cannot be used: nothing but the base model is asked of it.
            self._found({}, None)
            self.dumb = str(error)
        else:
            self._silent, self.dumb = 0, None

    async def _ask(self) -> None:
        info = await self.engine.model_info()
        loaded = await self.engine.loaded_adapters()
        due = self._settings_at is None or monotonic() - self._settings_at > _ASK_SETTINGS_EVERY_S
        # Other weights, or a name that is gone: it may be another process, for which no proof holds. What it is is
        # asked after what it has, so that a start in between is never taken for the process that was proved.
        if due or info != self._info or not self.loaded.keys() <= loaded.keys():
            # The model first: another one under the same address takes no ids of ours.
            await self.served.look()
            await self._ask_settings(info)
        try:
            loads = await self.engine.loads()
        except EngineUnavailable:
            raise
        except EngineError:
            loads = None
        self.takes_requests = await self.engine.ready()
        self._found(loaded, loads)

    async def _ask_settings(self, info: ModelInfo) -> None:
        try:
            settings = await self.engine.server_info()
        except EngineUnavailable:
            raise
        except EngineError:
            settings = dict[str, Any]()
        process = identity(settings, info)
        if process is not None and self._seen_process not in (None, process):
            self.restarted_total += 1
            _log.warning("engine worker %s was started anew, or serves other weights", self.url)
        self.process, self._seen_process = process, process or self._seen_process
        self.slots, self._info = slots_of(settings), info
        self._settings_at = monotonic()

    def _found(self, loaded: Mapping[str, str], loads: list[WorkerLoad] | None) -> None:
        if self.fault is not None:
            _log.warning("engine worker %s answers again", self.url)
        self.fault = None
        self.loaded, self.loads = loaded, loads
        self.looked.set()
