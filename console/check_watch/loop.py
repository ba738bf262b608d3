"""The loop of `roundhouse check --watch`: evaluates, shows, waits; a signal ends it between two batches."""

import argparse
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from checks.alerting.config import AlertsConfig
from checks.readers.native_store import is_store
from checks.readers.store_window import Window
from collector.errors import StoreError, UserError
from collector.store.writer_lock import LockHeld
from console.check_watch.outputs import Round, Shown, shown_as
from console.check_watch.store_watch import StoreWatch, Suite
from console.stopping import stopping

if TYPE_CHECKING:
    from console.commands.check import Setup


class _Stopped(Exception):
    """A signal asked for the end while an evaluation was reading."""


def refuse_unwatchable(args: argparse.Namespace) -> None:
    """Refuses what cannot be watched, and options that are for a single report."""
    if args.format not in ("text", "json"):
        raise UserError(f"--format {args.format} is for one report; --watch writes text or json")
    for name in ("output", "reads"):
        if getattr(args, name) is not None:
            raise UserError(f"--{name} is not for --watch, which reads a store and writes to stdout; leave it out")
    if not args.path.exists():
        raise UserError(f"{args.path} does not exist; --watch needs a live store, the folder a collector writes")
    if not is_store(args.path):
        raise UserError(f"{args.path} is no store; --watch needs one, the folder a collector writes")
    if args.window is not None and args.window_turns is not None:
        raise UserError("--window and --window-turns are both given, expected one")
    for name in ("interval", "window", "window_turns"):
        value = getattr(args, name)
        if value is not None and not 0 < value <= 1e9:
            raise UserError(f"--{name.replace('_', '-')} is {value}, expected a number above 0")


def watch(args: argparse.Namespace, setup: "Setup") -> int:
    """Watches until a signal; then 0, or 1 when --fail-on is given and an alert as grave has not recovered."""
    config = setup.alerts
    if args.interval is not None:
        config = msgspec.structs.replace(config, interval_s=args.interval)
    window = (
        Window(turns=args.window_turns) if args.window_turns is not None else Window(args.window or config.window_s)
    )
    suite = Suite(setup.checks, setup.thresholds, setup.tools)
    with stopping() as stop, shown_as(args.format, window) as shown:
        opened = _opened(args, suite, config, window, shown.problem)
        try:
            for line in setup.said:
                shown.problem(line)
            _evaluate_until(stop, opened, shown, config.interval_s)
        finally:
            opened.close()
        return _verdict(opened, args.fail_on)


def _opened(
    args: argparse.Namespace, suite: Suite, config: AlertsConfig, window: Window, say: Callable[[str], None]
) -> StoreWatch:
    try:
        return StoreWatch(args.path, suite, config, window, say=say)
    except LockHeld as error:
        raise UserError(f"another evaluator watches this store: {error}") from error
    except StoreError as error:
        raise UserError(f"--watch writes findings and alerts into the store; {error}") from error


def _evaluate_until(stop: threading.Event, opened: StoreWatch, shown: Shown, interval_s: float) -> None:
    def on_batch(_: int) -> None:
        if stop.is_set():
            raise _Stopped

    while not stop.is_set():
        started = time.monotonic()
        now = datetime.now(UTC)
        try:
            evaluated = opened.evaluate(now, on_batch=on_batch)
        except _Stopped:
            return
        except StoreError as error:
            shown.failure(now, str(error))
        else:
            shown.evaluation(Round(evaluated, opened.delivery, opened.unwritten))
        stop.wait(max(0.0, started + interval_s - time.monotonic()))


def _verdict(opened: StoreWatch, fail_on: str | None) -> int:
    grave = {"warn": ("warn", "fail"), "fail": ("fail",)}.get(fail_on or "never", ())
    return 1 if any(alert.alarming and alert.severity in grave for alert in opened.board.alerts.values()) else 0
