"""What the required checks find in the latest turns of one adapter."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from checks.config import ChecksConfig, own_thresholds
from checks.finding import Finding
from checks.readers.store_window import StoreWindow, Window
from checks.suite import CHECKS, run, select_checks
from collector.store.reader import Reader
from trainer.cycle.adapter_log import AdapterLog

LATEST_TURNS = 4096
"""Turns of the store that are looked at; a cycle trains on the newest."""


def gate_findings(
    store: Path, names: Sequence[str], config: ChecksConfig, *, tenant: str, adapter: str, now: datetime
) -> tuple[Finding, ...]:
    """One finding of each check named."""
    if not names:
        return ()
    window = StoreWindow(store, Window(turns=LATEST_TURNS))
    with Reader(store).snapshot() as snapshot:
        log = AdapterLog(window.log(snapshot, now), tenant=tenant, adapter=adapter)
        return run(log, checks=select_checks(names), thresholds=own_thresholds(config, CHECKS)).findings
