"""Several agents at work at once, under one budget of turns and time."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from openai import OpenAI

from console.demo.agent import SessionResult, Steering, TurnResult, run_session
from console.demo.task import Task

MOST_AGENTS = 8
"""Sessions at a time: the engine computes them in one batch."""
TURNS_PER_AGENT = 3
"""Fewest turns of the budget for each agent, so that sessions get past their first turn."""
POLL_S = 0.1
SAMPLES = 4
"""Sessions of one task: a group, whose members are compared with each other."""


class Budget:
    """Turns and seconds that all agents share."""

    def __init__(self, turns: int, seconds: float) -> None:
        self.turns = turns
        self._left = turns
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Takes one turn; False when turns or time are spent."""
        with self._lock:
            if self._left <= 0 or time.monotonic() >= self._end:
                return False
            self._left -= 1
            return True

    def spend(self) -> None:
        """Leaves nothing, so that every agent stops before its next turn."""
        with self._lock:
            self._left = 0

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        with self._lock:
            return self._left <= 0 or time.monotonic() >= self._end


class Crew:
    """Agents in threads, each taking the next session until the budget is spent."""

    def __init__(
        self,
        client: OpenAI,
        model: str,
        tasks: Iterator[Task],
        *,
        run_id: str,
        scratch: Path,
        budget: Budget,
        on_progress: Callable[["Crew"], None],
    ) -> None:
        self._client = client
        self._model = model
        self._jobs = _numbered(tasks)
        self._run_id = run_id
        self._scratch = scratch
        self._budget = budget
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self.turns: list[TurnResult] = []
        self.sessions: list[SessionResult] = []

    @property
    def agents(self) -> int:
        """How many work at a time."""
        return max(1, min(MOST_AGENTS, self._budget.turns // TURNS_PER_AGENT))

    def work(self) -> None:
        """Runs until the budget is spent; the first failure of an agent stops all and is raised."""
        pool = ThreadPoolExecutor(self.agents)
        try:
            running = [pool.submit(self._agent) for _ in range(self.agents)]
            for future in running:
                future.add_done_callback(self._stop_after_failure)
            # Not wait(): a KeyboardInterrupt inside a lock of the pool can leave the main thread hanging there.
            while not all(future.done() for future in running):
                time.sleep(POLL_S)
            for future in running:
                future.result()
        finally:
            self._budget.spend()
            pool.shutdown(wait=False)

    def _stop_after_failure(self, future: Future[None]) -> None:
        if future.exception() is not None:
            self._budget.spend()

    def _agent(self) -> None:
        while not self._budget.spent:
            with self._lock:
                number, task = next(self._jobs)
            folder = self._scratch / f"session-{number}"
            folder.mkdir()
            session_id = f"{self._run_id}-{number}"
            steering = Steering(self._budget.take, self._note_turn)
            result = run_session(
                self._client, self._model, task, session_id=session_id, folder=folder, steering=steering
            )
            with self._lock:
                self.sessions.append(result)

    def _note_turn(self, turn: TurnResult) -> None:
        with self._lock:
            self.turns.append(turn)
            self._on_progress(self)


def _numbered(tasks: Iterator[Task]) -> Iterator[tuple[int, Task]]:
    number = 0
    for task in tasks:
        for _ in range(SAMPLES):
            number += 1
            yield number, task
