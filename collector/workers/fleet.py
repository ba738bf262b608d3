"""All engine workers of a collector, and the choice of one for each turn."""

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from typing import Protocol

from collector.ports import Target
from collector.refusal import Refusal
from collector.workers.slots import Budget
from collector.workers.twins import twins
from collector.workers.worker import Worker

_RETRY_AFTER_S = 5
_READY_LIMIT_S = 2.0
_NONE_READY = "none of the engine workers takes requests"


class Serving(Protocol):
    """Who may serve adapter versions."""

    def budgets(self) -> list[Budget]:
        """Every worker's adapter slots."""
        ...

    def why_not(self, worker: Worker, name: str) -> str | None:
        """Why a worker may not serve a version now; None when it may."""
        ...

    async def refresh(self) -> None:
        """Looks again at what may have changed since: an adapter just loaded, a proof just written."""
        ...


class Fleet:
    """Sessions stay with the worker that holds their prefix; new ones go to the one with the least to do."""

    def __init__(self, workers: Sequence[Worker], serving: Serving) -> None:
        assert workers, "a collector has an engine"
        self.workers = tuple(workers)
        self._serving = serving
        self.moved_total = 0
        """Sessions that had to go on with another worker."""
        self.retried_total = 0
        """Turns that were sent again, to another worker, since the first one gave no token."""

    @property
    def several(self) -> bool:
        """Whether there is a choice."""
        return len(self.workers) > 1

    def health(self) -> list[dict[str, object]]:
        """How each worker stands, and what is wrong with its adapter slots."""
        budgets = {each.worker: each for each in self._serving.budgets()}
        left = twins(self.workers)
        return [
            {
                "worker": worker.url,
                "fault": worker.fault or worker.served.difference or left.get(worker.url),
                "turns": worker.running,
                "loaded": sorted(worker.loaded) if worker.looked.is_set() else None,
                "slots": worker.slots,
                "slots_fault": budgets[worker.url].fault if worker.url in budgets else None,
                "slots_warning": budgets[worker.url].warning if worker.url in budgets else None,
            }
            for worker in self.workers
        ]

    def watches(self) -> list[Coroutine[None, None, None]]:
        """What looks, again and again, which model each worker serves."""
        return [worker.served.watch() for worker in self.workers]

    async def check_model(self) -> None:
        """Refusal while every worker is known to serve another model than prompts are rendered for."""
        if not any(worker.served.known for worker in self.workers):
            await asyncio.gather(*(worker.served.look() for worker in self.workers))
        different = [worker.served.difference for worker in self.workers if worker.served.difference is not None]
        if len(different) == len(self.workers):
            raise Refusal.busy(different[0], code="another_model")

    async def place(self, target: Target, *, session_id: str, stays_with: str | None) -> Worker:
        """The worker for a turn: the session's own while it lives and serves the version, else the least busy.

        Of equally busy ones each session has its own order, the same for every collector.
        """
        able = self._able(target)
        if not able and target.engine_name is not None:
            await self._serving.refresh()
            able = self._able(target)
        if not able:
            able = self._last_resort(target)
        chosen = next((worker for worker in able if worker.url == stays_with), None)
        if chosen is None:
            chosen = self._least_busy(able, session_id)
            self.moved_total += stays_with is not None
        return chosen

    def other(self, target: Target, *, session_id: str, than: Worker, process: str | None) -> Worker | None:
        """Another worker for a turn that its first one gave no token of; None where there is none.

        It is of another `process` than the turn was sent to, whose abort would end it there.
        """
        able = [worker for worker in self._able(target) if worker is not than]
        able = [worker for worker in able if process is None or worker.process != process]
        return self._least_busy(able, session_id) if able else None

    async def not_ready(self) -> list[str]:
        """What is missing for the base model to be sampled; empty when one worker can."""
        ready = await asyncio.gather(*(_ready(worker) for worker in self.workers))
        pairs = list(zip(self.workers, ready, strict=True))
        if any(is_ready and worker.served.difference is None for worker, is_ready in pairs):
            return []
        missing = [] if any(ready) else ["the engine takes no requests" if not self.several else _NONE_READY]
        different = [worker.served.difference for worker in self.workers if worker.served.difference is not None]
        return [*missing, *dict.fromkeys(different)]

    def _able(self, target: Target) -> list[Worker]:
        left = twins(self.workers)
        living = [worker for worker in self.workers if _lives(worker) and worker.url not in left]
        if target.engine_name is None:
            return living
        name = target.engine_name
        return [worker for worker in living if self._serving.why_not(worker, name) is None]

    def _last_resort(self, target: Target) -> list[Worker]:
        """For the base model any worker is tried: the request itself finds out. A version without a proof is not."""
        if target.engine_name is None:
            tried = [worker for worker in self.workers if worker.served.difference is None]
            if tried:
                return tried
            raise Refusal.busy(self.workers[0].served.difference or _NONE_READY, code="another_model")
        name = target.engine_name
        left = twins(self.workers)
        asked = [worker for worker in self.workers if worker.url not in left]
        told = {worker.url: worker.fault or self._serving.why_not(worker, name) for worker in asked}
        reasons = "; ".join(f"{url}: {why}" for url, why in told.items() if why is not None)
        raise Refusal.busy(
            f"no engine serves {name} now: {reasons}", code="adapter_not_loaded", retry_after_s=_RETRY_AFTER_S
        )

    def _least_busy(self, able: Sequence[Worker], session_id: str) -> Worker:
        return min(able, key=lambda worker: (not worker.takes_requests, worker.busy, _draw(session_id, worker.url)))


async def _ready(worker: Worker) -> bool:
    try:
        async with asyncio.timeout(_READY_LIMIT_S):
            return await worker.engine.ready()
    except TimeoutError:
        return False


def _lives(worker: Worker) -> bool:
    return worker.fault is None and worker.served.difference is None


def _draw(session_id: str, url: str) -> bytes:
    return hashlib.blake2b(f"{session_id}\n{url}".encode(), digest_size=8).digest()
