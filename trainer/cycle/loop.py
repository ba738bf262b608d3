"""The trainer's process: cycles when they are due, alerts in between, until it is told to stop."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, Protocol

from collector.errors import EngineError
from collector.records import Span
from trainer.cycle.cycle import Setting, run_cycle
from trainer.cycle.history import TABLES
from trainer.cycle.outcome import CycleOutcome
from trainer.cycle.restoring import Restoring
from trainer.cycle.rollback import Rollbacks
from trainer.cycle.schedule import Due, Schedule, due

INTERRUPTED: Final = 130
"""Exit code of a trainer that was told to stop."""


class Stopped(Exception):
    """The process was told to stop; what was begun is taken up by the next run."""


class Shown(Protocol):
    """Where the trainer says what it does."""

    def cycle(self, outcome: CycleOutcome) -> None:
        """A cycle has ended."""
        ...

    def waiting(self, due: Due) -> None:
        """When the next one starts, or what it waits for; told when that changes."""
        ...

    def problem(self, line: str) -> None:
        """What went wrong and did not end the trainer."""
        ...


class Watch(NamedTuple):
    """What is done after cycles and between them, again and again."""

    evaluate: Callable[[], None]
    """Evaluates the alerts; nothing where another process does."""
    interval_s: float


def run_once(setting: Setting, shown: Shown, watch: Watch) -> int:
    """One cycle; the exit code."""
    try:
        outcome = run_cycle(setting, "asked for")
    except Stopped:
        return INTERRUPTED
    shown.cycle(outcome)
    watch.evaluate()
    for line in Rollbacks(setting).look():
        shown.problem(line)
    return outcome.exit_code


class TrainLoop:
    """Runs cycles by a schedule."""

    def __init__(self, setting: Setting, schedule: Schedule, stop: threading.Event, shown: Shown, watch: Watch) -> None:
        self._setting = setting
        self._schedule = schedule
        self._stop = stop
        self._shown = shown
        self._watch = watch
        self._idle: tuple[Literal["wait", "idle_scheduled"], datetime] | None = None
        self._told: tuple[datetime | None, str] | None = None
        self._upkeep = (Restoring(setting), Rollbacks(setting))
        self._watched_at = -float("inf")

    def run(self) -> int:
        """Until it is told to stop; the exit code."""
        try:
            while not self._stop.is_set():
                self._round()
        except Stopped:
            pass
        self._end_idle()
        return INTERRUPTED

    def _round(self) -> None:
        found = self._look()
        if found.now:
            self._end_idle()
            self._cycle(found.reason)
        else:
            self._stand(found)
            if self._told != (told := (found.at, found.reason)):
                self._shown.waiting(found)
                self._told = told
        if found.now or time.monotonic() >= self._watched_at + self._watch.interval_s:
            self._watched_at = time.monotonic()
            self._watch.evaluate()
            for line in (line for each in self._upkeep for line in each.look()):
                self._shown.problem(line)
        if not found.now:
            left = self._setting.config.schedule.poll_s
            if found.at is not None:
                left = min(left, max(0.0, (found.at - _now()).total_seconds()))
            self._stop.wait(left)

    def _look(self) -> Due:
        with self._setting.reader.snapshot(TABLES) as snapshot:
            past = self._setting.history.look(snapshot)
        return due(self._schedule, past, _now())

    def _cycle(self, started_by: str) -> None:
        began = _now()
        try:
            outcome = run_cycle(self._setting, started_by)
        except EngineError as error:
            retry_s = self._setting.config.schedule.retry_s
            self._shown.problem(f"a cycle is due ({started_by}) and waits: {error}; next try in {retry_s:g} s")
            self._stop.wait(retry_s)
            self._setting.write(Span(role="trainer", kind="wait", from_=began, to=_now()))
        else:
            self._told = None
            self._shown.cycle(outcome)

    def _stand(self, due: Due) -> None:
        """Nothing is done now: until a time that the schedule sets, which is no stall, or for want of feedback."""
        kind = "wait" if due.at is None else "idle_scheduled"
        if self._idle is None or self._idle[0] != kind:
            self._end_idle()
            self._idle = (kind, _now())

    def _end_idle(self) -> None:
        """Writes how long nothing was done."""
        if self._idle is not None:
            kind, begun = self._idle
            self._setting.write(Span(role="trainer", kind=kind, from_=begun, to=_now()))
            self._idle = None


def _now() -> datetime:
    return datetime.now(UTC)
