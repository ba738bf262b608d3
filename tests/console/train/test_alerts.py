"""Alerts beside cycles: evaluated and written by the trainer, or left to the process that does it already."""

import threading
from pathlib import Path

import pytest

from checks.alerting.config import AlertsConfig
from checks.config import ChecksConfig
from collector.store.reader import Reader
from collector.store.writer import Writer
from console.check_watch.store_watch import WRITER
from console.train.alerts import alerts_of
from tests.console.check_watch.watched import fill
from trainer.cycle.loop import Stopped

CONFIG = ChecksConfig(alerts=AlertsConfig(for_evaluations=1, window_s=3600.0))


def kinds(store: Path) -> list[str]:
    with Reader(store).snapshot(["events"]) as snapshot:
        return [row["kind"] for row in snapshot.arrow("events").to_pylist()]


def test_an_evaluation_writes_findings_and_says_what_fires(tmp_path: Path) -> None:
    fill(tmp_path, "length", "length", "stop")
    said: list[str] = []
    with alerts_of(tmp_path, CONFIG, threading.Event(), said.append) as watch:
        watch.evaluate()
    assert {"finding", "alert"} <= set(kinds(tmp_path))
    assert any("FIRING fail  truncation" in line for line in said), said


def test_where_another_process_watches_nothing_is_evaluated_here(tmp_path: Path) -> None:
    fill(tmp_path, "length")
    said: list[str] = []
    with Writer(tmp_path, WRITER), alerts_of(tmp_path, CONFIG, threading.Event(), said.append) as watch:
        watch.evaluate()
    [line] = said
    assert line.startswith("alerts are evaluated by another process")
    assert kinds(tmp_path) == []


def test_a_stop_ends_an_evaluation_between_two_batches(tmp_path: Path) -> None:
    fill(tmp_path, "length")
    stop = threading.Event()
    stop.set()
    with alerts_of(tmp_path, CONFIG, stop, lambda _: None) as watch, pytest.raises(Stopped):
        watch.evaluate()
