"""A store under watch: each evaluation reads its window, writes findings and alerts, and delivers notices."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from checks.alerting.alert_event import ACTS
from checks.alerting.config import AlertsConfig
from checks.alerting.delivery import Counts, Delivery, targets_of
from checks.alerting.evaluator import KINDS, Evaluated, Evaluator
from checks.alerting.rule import rules_of
from checks.alerts import Board
from checks.measure import Tools
from checks.readers.event_tail import EventTail
from checks.readers.store_window import StoreWindow, Window
from checks.suite import Check, OnBatch
from checks.suite import run as run_checks
from collector.errors import StoreError
from collector.records import Event
from collector.store.reader import Reader
from collector.store.writer import Writer

WRITER = "evaluator"
"""The journal of the one evaluator of a store; its lock refuses a second one."""
UNWRITTEN = 10_000
"""Records kept for the next try while the store cannot be written; older ones are lost, and that is said."""
DRAIN_S = 2.0
"""Longest wait for notices at the end."""


class Suite(NamedTuple):
    """What is run at each evaluation."""

    checks: Sequence[Check]
    thresholds: Mapping[str, Mapping[str, float]]
    tools: Tools


class StoreWatch:
    """The one evaluator of a store. Opening takes its journal, or refuses with the holder's pid."""

    def __init__(
        self, store: Path, suite: Suite, config: AlertsConfig, window: Window, *, say: Callable[[str], None]
    ) -> None:
        """`say` is told in one line of what went wrong and did not end the watch."""
        rules = rules_of(config, [check.name for check in suite.checks])
        targets = targets_of(config.delivery)
        self._suite = suite
        self._say = say
        self._reader = Reader(store)
        self._window = StoreWindow(store, window)
        self._tail = EventTail()
        self._evaluator = Evaluator(rules, window=window.name, actor=WRITER, incident_window_s=config.incident_window_s)
        self._unwritten: list[Event] = []
        self._took_s = 0.0
        self._writer = Writer(store, WRITER)
        try:
            self._events = self._restored()
        except BaseException:
            self._writer.close()
            raise
        self._delivery = Delivery(targets, queue_notices=config.delivery.queue_notices, say=say)

    def evaluate(self, now: datetime, *, on_batch: OnBatch = lambda _: None) -> Evaluated:
        """One evaluation of what is in the window now."""
        started = time.monotonic()
        with self._reader.snapshot() as snapshot:
            self._events += self._tail.new(snapshot, ACTS)
            log = self._window.log(snapshot, now)
            checks, thresholds, tools = self._suite
            report = run_checks(log, checks=checks, thresholds=thresholds, tools=tools, on_batch=on_batch)
        evaluated = self._evaluator.evaluate(report, self._events, now, took_s=self._took_s)
        self._events = []
        self._write(evaluated.records)
        for notice in evaluated.notices:
            self._delivery.put(notice)
        self._took_s = time.monotonic() - started
        return evaluated

    @property
    def board(self) -> Board:
        """Where every alert stands."""
        return self._evaluator.board

    @property
    def delivery(self) -> Counts:
        """What became of the notices so far."""
        return self._delivery.counts

    @property
    def unwritten(self) -> int:
        """Records that the store could not take yet."""
        return len(self._unwritten)

    def close(self) -> None:
        """Delivers what waits, for a moment, and lets go of the journal."""
        self._delivery.close(most_s=DRAIN_S)
        if self._unwritten:
            self._write(())
        self._writer.close()

    def _restored(self) -> list[Event]:
        with self._reader.snapshot(["events"]) as snapshot:
            known = self._tail.new(snapshot, KINDS)
        self._evaluator.restore(known)
        return known

    def _write(self, records: Sequence[Event]) -> None:
        """Writes what was left over and the records; what the store does not take now is left for the next time."""
        waiting = [*self._unwritten, *records]
        answers: list[tuple[Event, Future[object]]] = [(each, self._writer.append(each)) for each in waiting]  # pyright: ignore[reportAssignmentType]
        failures = [(each, error) for each, answer in answers if (error := answer.exception()) is not None]
        for _, error in failures:
            if not isinstance(error, StoreError):
                raise error
        left = [each for each, _ in failures]
        if left and not self._unwritten:
            self._say(f"{failures[0][1]}; {len(left)} records are kept for the next evaluation")
        if len(left) > UNWRITTEN:
            self._say(f"{len(left) - UNWRITTEN} records of findings and alerts are lost: the store takes none")
        self._unwritten = left[-UNWRITTEN:]
