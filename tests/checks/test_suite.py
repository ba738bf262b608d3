"""The suite: every check is registered, has its manual, a fault that fires it and a healthy log that does not."""

import importlib
from pathlib import Path

import polars as pl
import pytest

from checks.readers.open_log import open_log
from checks.suite import CHECKS, Check, manual, run, select_checks
from collector.errors import UserError

ROOT = Path(__file__).parents[2]
SECTIONS = ("Definition:", "Units:", "Reads:", "Threshold:", "Check next:")
by_name = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)


def test_every_file_of_a_check_is_registered() -> None:
    files = {path.stem for path in (ROOT / "checks" / "faults").glob("[!_]*.py")}
    assert {check.name.replace("-", "_") for check in CHECKS} == files


@by_name
def test_the_manual_has_every_section(check: Check) -> None:
    lines = manual(check).splitlines()
    assert [name for name in SECTIONS if not any(line.startswith(name) for line in lines)] == []
    assert check.function.__doc__ is not None
    module = importlib.import_module(check.function.__module__)
    assert module.__doc__ is not None
    assert lines[0] == module.__doc__.splitlines()[0], "the module's first line is the manual's"


@by_name
def test_a_recorded_fault_fires_it(check: Check) -> None:
    found = run(open_log(ROOT / "samples" / check.name / "fires.jsonl"), checks=[check]).finding(check.name)
    assert found.status in ("warn", "fail", "info"), found.summary
    assert found.summary


@by_name
def test_a_healthy_log_leaves_it_quiet(check: Check) -> None:
    found = run(open_log(ROOT / "samples" / check.name / "healthy.jsonl"), checks=[check]).finding(check.name)
    assert found.status == "ok", found.summary
    assert not found.evidence


@by_name
def test_nothing_observed_is_no_data(check: Check) -> None:
    found = run({"turns": pl.DataFrame({"session_id": ["s"]})}, checks=[check]).finding(check.name)
    assert (found.status, found.value, found.metrics) == ("no_data", None, {})
    assert found.missing, "no_data names the columns that would supply it"


def test_an_unknown_check_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="no check 'truncaton', expected some of"):
        select_checks(["truncaton"])


def test_an_unknown_threshold_is_refused_by_name() -> None:
    turns = pl.DataFrame({"session_id": ["s"], "finish_reason": ["stop"]})
    with pytest.raises(UserError, match="truncation has no threshold 'warn', expected some of warn_at, fail_at"):
        run({"turns": turns}, checks=select_checks(["truncation"]), thresholds={"truncation": {"warn": 1}})
