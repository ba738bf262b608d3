"""The alerts that `roundhouse train` evaluates, as `check --watch` does; one process at a time does it for a store."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from checks.config import ChecksConfig, own_thresholds
from checks.measure import Tools
from checks.readers.store_window import Window
from checks.suite import CHECKS
from collector.errors import StoreError
from collector.store.writer_lock import LockHeld
from console.check_watch.change_lines import change_text
from console.check_watch.store_watch import StoreWatch, Suite
from trainer.cycle.loop import Stopped, Watch


@contextmanager
def alerts_of(store: Path, config: ChecksConfig, stop: threading.Event, say: Callable[[str], None]) -> Generator[Watch]:
    """What the trainer calls between cycles; where another process watches the store, it evaluates nothing."""
    suite = Suite(CHECKS, own_thresholds(config, CHECKS), Tools())
    window = Window(config.alerts.window_s)
    try:
        opened = StoreWatch(store, suite, config.alerts, window, say=say)
    except LockHeld as held:
        say(f"alerts are evaluated by another process: {held}")
        yield Watch(lambda: None, config.alerts.interval_s)
        return
    try:
        yield Watch(lambda: _evaluate(opened, window, stop, say), config.alerts.interval_s)
    finally:
        opened.close()


def _evaluate(opened: StoreWatch, window: Window, stop: threading.Event, say: Callable[[str], None]) -> None:
    def on_batch(_: int) -> None:
        if stop.is_set():
            raise Stopped

    try:
        evaluated = opened.evaluate(datetime.now(UTC), on_batch=on_batch)
    except StoreError as error:
        say(f"alerts were not evaluated: {error}")
        return
    for transition in evaluated.transitions:
        if transition.notable:
            say(f"alert: {change_text(transition, window)}")
