"""One collector put together: store, engine, renderer, sessions, and the loops that run beside the requests."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from collector.capture import Capture
from collector.config import CollectorConfig
from collector.earlier_attempts import EarlierAttempts
from collector.errors import StoreError
from collector.feedback import FeedbackDesk
from collector.keys import Keys
from collector.metrics import Metrics
from collector.ports import Journal, Past, RouteKeeper, Routes
from collector.privacy.detector import Detector, KingfisherDetector
from collector.privacy.record_screen import RecordScreen
from collector.receipts import Receipts
from collector.rendering.proven_family import Choice
from collector.rendering.renderer import Renderer
from collector.session_index import SessionIndex
from collector.workers.fleet import Fleet
from collector.workers.worker_metrics import WorkerMetrics

_log = logging.getLogger(__name__)
_WARM_AGAIN_S = 1.0
_TURNS_A_SESSION = 10


class Collector:
    """What the endpoints share."""

    def __init__(
        self,
        *,
        config: CollectorConfig,
        renderer: Renderer,
        context_tokens: int,
        base_model: str,
        fleet: Fleet,
        journal: Journal,
        past: Past,
        routes: Routes,
        user_key: bytes,
        detector: Detector | None = None,
        choice: Choice | None = None,
        keeper: RouteKeeper | None = None,
    ) -> None:
        """`detector` finds secrets in place of the bundled one, where redaction is enabled; `choice` is of a family,
        `keeper` takes expert routes, which are asked for where there is one."""
        self._choice = choice or Choice(None, "none was looked for")
        self.config = config
        self.keys = Keys(config.keys)
        self.metrics = Metrics(config.prices)
        WorkerMetrics(fleet, self.metrics.registry)
        self.routes = routes
        self._route_failures = 0
        self.past_failure: str | None = None
        """Why stored sessions cannot be read."""
        self._renderer = renderer
        self._context_tokens = context_tokens
        self.fleet = fleet
        self._journal = journal
        self.sessions = SessionIndex(
            past,
            most_sessions=config.index_sessions,
            most_tokens=config.index_tokens,
            stop_ids=renderer.tokenizer.stop_ids,
            several_workers=fleet.several,
        )
        self._earlier = EarlierAttempts(past)
        receipts = Receipts(past, most=_TURNS_A_SESSION * config.index_sessions)
        searching = (detector or KingfisherDetector(config.redaction)) if config.redaction.enabled else None
        self.screen = RecordScreen(config.opt_out, searching, renderer.tokenizer.decode)
        self.capture = Capture(
            config=config,
            renderer=renderer,
            context_tokens=context_tokens,
            base_model=base_model,
            fleet=fleet,
            journal=journal,
            routes=routes,
            sessions=self.sessions,
            receipts=receipts,
            metrics=self.metrics,
            screen=self.screen,
            family=self._choice.family,
            keeper=keeper,
            earlier=self._earlier,
        )
        self.desk = FeedbackDesk(
            journal=journal,
            past=past,
            receipts=receipts,
            sessions=self.sessions,
            metrics=self.metrics,
            user_key=user_key,
            screen=self.screen,
        )

    def describe(self) -> dict[str, object]:
        """What a client may want to know of the model."""
        return {
            "context_tokens": self._context_tokens,
            "history_reasoning": self.config.history_reasoning,
            "renderer": self._choice.describe(),
            "template_ignores": list(self._renderer.template.abilities.ignored()),
        }

    def health(self) -> dict[str, object]:
        """What is true of a living collector; not whether it can serve."""
        return {
            "status": "ok",
            "running_turns": self.capture.running,
            "sessions_in_memory": len(self.sessions),
            "journal_queued": self._journal.queued,
            "store_failure": self._journal.failure,
            "unrecorded_total": self._journal.failed_total,
            "engines": self.fleet.health(),
            **self.describe(),
        }

    async def not_ready(self) -> list[str]:
        """What is missing for a call to be served and recorded."""
        missing = await self.fleet.not_ready()
        if self._journal.failure is not None:
            missing.append(f"records cannot be stored: {self._journal.failure}")
        if (stale := self.routes.stale()) is not None:
            missing.append(stale)
        if self.past_failure is not None:
            missing.append(f"stored sessions cannot be read: {self.past_failure}")
        return missing

    def observe(self) -> None:
        """Brings the gauges up to date."""
        self.metrics.running.set(self.capture.running)
        self.metrics.sessions.set(len(self.sessions))
        self.metrics.queued.set(self._journal.queued)
        self.metrics.store_failing.set(self._journal.failure is not None)
        self.metrics.routes_stale.set(self.routes.stale() is not None)
        failed = self.routes.failed_total
        self.metrics.route_failures.inc(failed - self._route_failures)
        self._route_failures = failed

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """What runs beside the requests."""
        ignored = self._renderer.template.abilities.ignored()
        if ignored:
            _log.warning("the chat template ignores %s; they are put into the prompt as text", ", ".join(ignored))
        beside = [asyncio.create_task(self._warm()), *map(asyncio.create_task, self.fleet.watches())]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self.capture.close()
            self.screen.close()

    async def _warm(self) -> None:
        """Reads the names of stored sessions, as often as it takes: no call can be served before."""
        while True:
            try:
                await self.sessions.warm()
                await self._earlier.read()
            # Whatever it is: nobody waits for this task, so that it is counted and shown here.
            except Exception as error:  # noqa: BLE001
                self.metrics.past_failures.inc()
                ours = not isinstance(error, StoreError)
                reason = repr(error) if ours else str(error)
                if reason != self.past_failure:
                    _log.error("stored sessions cannot be read: %s", reason, exc_info=ours)
                self.past_failure = reason
            else:
                self.past_failure = None
                return
            await asyncio.sleep(_WARM_AGAIN_S)
