"""One turn's way to the engine: a worker, and once another one where the first gave no token."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from collector.engine.wire import Delta, GenerateRequest
from collector.errors import EngineError, EngineUnavailable
from collector.ports import Target
from collector.workers.fleet import Fleet
from collector.workers.worker import Worker


class Dispatch:
    """Samples one turn."""

    def __init__(
        self, fleet: Fleet, worker: Worker, target: Target, *, session_id: str, moved: Callable[[Worker, str], None]
    ) -> None:
        """`moved` is told of another worker, and why, before it is asked."""
        self._fleet = fleet
        self._worker = worker
        self._target = target
        self._session_id = session_id
        self._moved = moved

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        """What is sampled, each token once. It is sent again at most once, and never after the first token."""
        worker, sampled = self._worker, False
        while True:
            worker.running += 1
            # Known no more once the worker is lost.
            process = worker.process
            try:
                async with aclosing(worker.engine.generate(request)) as deltas:
                    async for delta in deltas:
                        # A reply may end without a token: then nothing is left to be sampled.
                        sampled = sampled or bool(delta.token_ids) or delta.finish is not None
                        yield delta
                return
            except EngineError as error:
                self._note(worker, error)
                other = None if sampled or worker is not self._worker else self._other(error, process)
                if other is None:
                    raise
                self._moved(other, str(error))
            finally:
                worker.running -= 1
            self._fleet.retried_total += 1
            worker = other

    def _note(self, worker: Worker, error: EngineError) -> None:
        # With a status it lives, and has no room or is not ready yet.
        if isinstance(error, EngineUnavailable) and error.status is None:
            worker.lose(str(error))
        elif self._forgotten(error) and self._target.engine_name is not None:
            worker.forgot(self._target.engine_name)

    def _other(self, error: EngineError, process: str | None) -> Worker | None:
        """Another worker, if that one may not fail in the same way."""
        if not (isinstance(error, EngineUnavailable) or self._forgotten(error)):
            return None
        return self._fleet.other(self._target, session_id=self._session_id, than=self._worker, process=process)

    def _forgotten(self, error: EngineError) -> bool:
        """Whether the worker refused the adapter's name: it was started anew, and has not been looked at since."""
        name = self._target.engine_name
        return name is not None and error.status in (400, 404) and name in str(error)
