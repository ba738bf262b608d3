"""Thresholds from roundhouse.toml: taken as they are, and refused by name when no check has them."""

from pathlib import Path

import polars as pl
import pytest

from checks.config import ChecksConfig, own_thresholds
from checks.finding import Finding
from checks.suite import CHECKS, Check, run, select_checks
from collector.errors import UserError
from console.config import load_config


def counted(turns: pl.DataFrame, *, least: int = 3, warn_at: float | None = None) -> Finding:
    """A check with a whole number among its thresholds."""
    return Finding(check="counted", status="ok", summary=f"{least!r} {warn_at!r}")


MADE = (Check("counted", counted, ("turns",)),)


def test_a_threshold_of_the_file_grades_the_finding(tmp_path: Path) -> None:
    file = tmp_path / "roundhouse.toml"
    file.write_text("[checks.thresholds.truncation]\nwarn_at = 0.5\nfail_at = inf\n")
    thresholds = own_thresholds(load_config(file).checks, CHECKS)
    assert thresholds == {"truncation": {"warn_at": 0.5, "fail_at": float("inf")}}
    half = pl.DataFrame({"session_id": ["a", "b"], "turn": [1, 1], "finish_reason": ["length", "stop"]})
    checks = select_checks(["truncation"])
    assert run({"turns": half}, checks=checks).finding("truncation").status == "fail"
    assert run({"turns": half}, checks=checks, thresholds=thresholds).finding("truncation").status == "ok"


def test_a_whole_number_stays_one() -> None:
    given = own_thresholds(ChecksConfig(thresholds={"counted": {"least": 5.0, "warn_at": 2.0}}), MADE)
    assert run({}, checks=MADE, thresholds=given).finding("counted").summary == "5 2.0"


@pytest.mark.parametrize(
    ("check", "threshold", "value", "said"),
    [
        ("truncaton", "warn_at", 0.1, "no check 'truncaton', expected some of .*counted"),
        (
            "counted",
            "warn",
            0.1,
            r"\[checks.thresholds.counted\] warn: no such threshold, expected some of least",
        ),
        ("counted", "warn_at", float("nan"), "warn_at is nan, expected a number"),
        ("counted", "least", 2.5, "least is 2.5, expected a whole number; remove it for 3"),
    ],
)
def test_what_no_check_has_is_refused(check: str, threshold: str, value: float, said: str) -> None:
    with pytest.raises(UserError, match=said):
        own_thresholds(ChecksConfig(thresholds={check: {threshold: value}}), MADE)


@pytest.mark.parametrize("line", ['warn_at = "much"', "[checks.threshold]", "[checks]\nthreshold = 1"])
def test_what_is_no_threshold_at_all_is_refused_with_the_file(line: str, tmp_path: Path) -> None:
    file = tmp_path / "roundhouse.toml"
    file.write_text(f"[checks.thresholds.truncation]\n{line}\n" if "=" in line[:9] else line)
    with pytest.raises(UserError, match=r"roundhouse.toml: .*correct or remove the key"):
        load_config(file)
