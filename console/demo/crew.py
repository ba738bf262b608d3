"""Several agents at work at once, under one budget of turns and time."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from console.demo.agent import SessionResult, Steering, TurnResult

MOST_AGENTS = 8
"""Sessions at a time where nothing else is said: the engine computes them in one batch."""
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


class Job(Protocol):
    """One session of an agent, its task settled."""

    def __call__(self, *, session_id: str, folder: Path, steering: Steering) -> SessionResult:
        """Works in an empty folder until the task is done or the budget spent."""
        ...


class Crew:
    """Agents in threads, each taking the next session until the budget is spent."""

    def __init__(
        self,
        jobs: Iterator[Job],
        *,
        run_id: str,
        scratch: Path,
        budget: Budget,
        on_progress: Callable[["Crew"], None],
        most_agents: int = MOST_AGENTS,
    ) -> None:
        """`run_id` begins the names of its sessions."""
        self._jobs = enumerate(jobs, 1)
        self._run_id = run_id
        self._scratch = scratch
        self._budget = budget
        self._on_progress = on_progress
        self._most_agents = most_agents
        self._lock = threading.Lock()
        self.turns: list[TurnResult] = []
        self.sessions: list[SessionResult] = []

    @property
    def agents(self) -> int:
        """How many work at a time."""
        return max(1, min(self._most_agents, self._budget.turns // TURNS_PER_AGENT))

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
                number, job = next(self._jobs)
            session_id = f"{self._run_id}-{number}"
            folder = self._scratch / session_id
            folder.mkdir()
            result = job(session_id=session_id, folder=folder, steering=Steering(self._budget.take, self._note_turn))
            with self._lock:
                self.sessions.append(result)

    def _note_turn(self, turn: TurnResult) -> None:
        with self._lock:
            self.turns.append(turn)
            self._on_progress(self)
