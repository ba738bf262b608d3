"""Brings the engine workers to what the registry says: what is live is loaded, and routed to once it is proved."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from collector.engine.adapter_slots import check_same, load_once
from collector.errors import EngineError, StoreError
from collector.records import Event
from collector.store.registry_rows import RegistrySnapshot
from collector.workers.proofs import Proofs
from collector.workers.slots import Budget, budget, served_folders
from collector.workers.twins import twins
from collector.workers.worker import Worker

_log = logging.getLogger(__name__)

_LOOK_LIMIT_S = 5.0
_LOST_LIMIT_S = 1.0
_LOAD_LIMIT_S = 120.0
_LOAD_AGAIN_S = 5.0
_REFRESH_EVERY_S = 0.1
_READ_EVERY_S = 2.0
"""A probe may find that what was proved is served no more."""


class Reconciler:
    """Follows each worker on its own, so that one that hangs holds up nobody else."""

    def __init__(
        self,
        workers: tuple[Worker, ...],
        *,
        store: Path,
        registry: Callable[[], RegistrySnapshot],
        tell: Callable[[Event], object],
        look_every_s: float = 2.0,
    ) -> None:
        """`registry` gives the newest snapshot of the registry, and `tell` takes what is to be stored of it."""
        self._workers = workers
        self._store = store
        self._registry = registry
        self._tell = tell
        self._look_every_s = look_every_s
        self._proofs = Proofs()
        self._reading = asyncio.Lock()
        self._refreshed_at: float | None = None
        self._read_at: float | None = None
        self._folders: tuple[RegistrySnapshot, dict[str, Path]] | None = None
        self._refused: dict[tuple[str, str], tuple[float, str]] = {}
        self._twins: dict[str, str] = {}
        self.failure: str | None = None
        """Why proofs cannot be read; None while they can."""

    async def run(self) -> None:
        """Looks again and again until it is cancelled."""
        await asyncio.gather(*(self._follow(worker) for worker in self._workers))

    async def look(self) -> None:
        """One look at every worker, at the store's proofs, and at what is missing."""
        await asyncio.gather(*(worker.look(_LOOK_LIMIT_S) for worker in self._workers))
        self._find_twins()
        await self._read_proofs()
        await asyncio.gather(*(self._load_missing(worker) for worker in self._workers))

    def why_not(self, worker: Worker, name: str) -> str | None:
        """Why a worker may not serve a version now: it is not loaded there, or not proved of the process it is."""
        folder = self._served().get(name)
        if name not in worker.loaded:
            refused = self._refused.get((worker.url, name))
            return refused[1] if refused is not None else worker.dumb or "it is not loaded there"
        if folder is not None:
            try:
                check_same(name, worker.loaded[name], folder)
            except EngineError as error:
                return str(error)
        why = self._proofs.why_not(worker.url, worker.process, name, lost_at=worker.lost_at)
        return why if why is None or self.failure is None else f"proofs cannot be read: {self.failure}"

    async def refresh(self) -> None:
        """Looks at what may have changed since the last look; calls that come together look once."""
        asked_at = monotonic()
        async with self._reading:
            if self._refreshed_at is not None:
                if self._refreshed_at >= asked_at:
                    return
                await asyncio.sleep(self._refreshed_at + _REFRESH_EVERY_S - monotonic())
            self._refreshed_at = monotonic()
            # One that was lost may be back: a connection that broke is no engine that ended.
            limits = [_LOOK_LIMIT_S if worker.fault is None else _LOST_LIMIT_S for worker in self._workers]
            looks = zip(self._workers, limits, strict=True)
            await asyncio.gather(*(worker.look(limit_s) for worker, limit_s in looks))
            await self._read()

    def budgets(self) -> list[Budget]:
        """The slots of every worker, of two addresses of one process those of the first."""
        versions, left = self._registry().versions, twins(self._workers)
        return [budget(worker, versions, worker.loaded) for worker in self._workers if worker.url not in left]

    async def _follow(self, worker: Worker) -> None:
        while True:
            await worker.look(_LOOK_LIMIT_S)
            self._find_twins()
            await self._read_proofs()
            await self._load_missing(worker)
            await asyncio.sleep(self._look_every_s)

    def _find_twins(self) -> None:
        before, self._twins = self._twins, twins(self._workers)
        for url in self._twins.keys() - before.keys():
            _log.error("engine worker %s", self._twins[url])

    async def _read_proofs(self) -> None:
        """At once where some worker has loaded what is not known to be proved there."""
        if self._read_at is not None and monotonic() - self._read_at < self._look_every_s / 2:
            return
        names = self._served()
        overdue = self._read_at is None or monotonic() - self._read_at > _READ_EVERY_S
        if (names and overdue) or any(
            name in worker.loaded and self.why_not(worker, name) for worker in self._workers for name in names
        ):
            async with self._reading:
                await self._read()

    def _served(self) -> dict[str, Path]:
        """What users are served by, of the newest snapshot."""
        snapshot = self._registry()
        if self._folders is None or self._folders[0] is not snapshot:
            self._folders = snapshot, served_folders(snapshot.versions, self._store)
        return self._folders[1]

    async def _read(self) -> None:
        self._read_at = monotonic()
        try:
            await asyncio.to_thread(self._proofs.read, self._store)
        except (StoreError, OSError) as error:
            if self.failure is None:
                _log.error("proofs cannot be read: %s", error)
            self.failure = str(error)
        else:
            self.failure = None

    async def _load_missing(self, worker: Worker) -> None:
        if (
            worker.fault is not None
            or worker.dumb is not None
            or worker.served.difference is not None
            or not worker.looked.is_set()
            or worker.url in self._twins
        ):
            return
        wanted = self._served()
        for key in [key for key in self._refused if key[0] == worker.url and key[1] not in wanted]:
            del self._refused[key]
        for name, folder in wanted.items():
            last = self._refused.get((worker.url, name))
            if name not in worker.loaded and (last is None or monotonic() - last[0] > _LOAD_AGAIN_S):
                await self._load(worker, name, folder, set(wanted))

    async def _load(self, worker: Worker, name: str, folder: Path, in_use: set[str]) -> None:
        before = self._refused.get((worker.url, name))
        try:
            async with asyncio.timeout(_LOAD_LIMIT_S):
                done = await load_once(worker.engine, name, folder, slots=worker.slots, in_use=in_use)
        except (EngineError, TimeoutError) as error:
            why = str(error) or f"it was not loaded within {_LOAD_LIMIT_S:g} s"
            self._refused[worker.url, name] = (monotonic(), why)
            if before is None or before[1] != why:
                _log.error("%s is not loaded on engine worker %s: %s", name, worker.url, why)
                self._say(worker, name, f"{name} is missing on {worker.url} and cannot be loaded: {why}", failed=True)
            return
        self._refused.pop((worker.url, name), None)
        worker.loaded = {**worker.loaded, name: str(folder)}
        if done == "loaded":
            self._say(worker, name, f"{name} was missing on {worker.url} and is loaded again; it waits for its proof")

    def _say(self, worker: Worker, name: str, text: str, *, failed: bool = False) -> None:
        adapter, _, version = name.rpartition("@")
        self._tell(
            Event(
                at=datetime.now(UTC),
                kind="reconcile",
                severity="fail" if failed else "info",
                adapter=adapter,
                version=int(version),
                actor="collector",
                text=text,
                detail={"worker": worker.url, "loaded": not failed},
            )
        )
