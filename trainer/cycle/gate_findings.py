"""What the required checks find in the latest turns of one adapter."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from checks.config import ChecksConfig, own_thresholds
from checks.finding import Finding
from checks.readers.store_window import StoreWindow, TurnsOf, Window
from checks.suite import CHECKS, run, select_checks
from collector.store.reader import Reader
from collector.store.registry_rows import read_registry
from trainer.cycle.adapter_log import AdapterLog

LATEST_TURNS = 4096
"""Turns of the adapter that are looked at; a cycle trains on the newest."""


def gate_findings(
    store: Path,
    names: Sequence[str],
    config: ChecksConfig,
    *,
    tenant: str,
    adapter: str,
    now: datetime,
    since: datetime | None = None,
) -> tuple[Finding, ...]:
    """One finding of each check named, over turns that did not begin before `since`. An engine that served something
    else than a version which was rejected for it since is no fault of the next one."""
    if not names:
        return ()
    window = StoreWindow(store, Window(turns=LATEST_TURNS), of=TurnsOf(tenant, adapter, since))
    ended = [
        each.version
        for each in read_registry(store).versions
        if each.adapter == adapter and each.state in ("rejected", "retired")
    ]
    with Reader(store).snapshot() as snapshot:
        log = AdapterLog(window.log(snapshot, now), tenant=tenant, adapter=adapter, ended=ended)
        return run(log, checks=select_checks(names), thresholds=own_thresholds(config, CHECKS)).findings
