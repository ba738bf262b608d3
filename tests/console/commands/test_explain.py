"""`roundhouse explain`: the list, a manual by the check's own name or by what it reports, and near names."""

import pytest

from checks.glossary import METRICS, SIGNALS, spelled
from checks.suite import CHECKS
from console.cli import main

Captured = pytest.CaptureFixture[str]


def said(capsys: Captured, *words: str) -> str:
    """What is printed for a name."""
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def test_the_list_has_a_line_for_each_check(capsys: Captured) -> None:
    listed = said(capsys)
    for check in CHECKS:
        assert f"\n  {check.name} " in listed
    assert "Turns that the length limit cut before the model stopped by itself." in listed


@pytest.mark.parametrize("name", ["truncation", "Truncation", "truncated_share", "truncated-share"])
def test_a_manual_has_its_sections_thresholds_and_metrics(name: str, capsys: Captured) -> None:
    manual = said(capsys, name)
    for section in ("Definition:", "Units:", "Reads:", "Threshold:", "Check next:"):
        assert f"\n{section} " in manual
    assert (
        "\nThresholds ([checks.thresholds.truncation] in roundhouse.toml):\n  warn_at  0.05\n  fail_at  0.25\n"
        in manual
    )
    assert "\n  truncated_share  share of turns cut by the length limit\n" in manual
    assert manual.startswith("truncation\n" if "share" not in name else f"{name} (reported by truncation): ")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_threshold_is_listed_with_its_default(check: object, capsys: Captured) -> None:
    manual = said(capsys, check.name)  # type: ignore[attr-defined]
    for name, value in check.thresholds.items():  # type: ignore[attr-defined]
        assert any(line.split() == [name, str(value) if value is not None else "none"] for line in manual.splitlines())


def test_signals_and_metrics_lead_to_the_check_that_reports_them(capsys: Captured) -> None:
    registered = {check.name for check in CHECKS}
    for name, word in [*SIGNALS.items(), *METRICS.items()]:
        if word.check in registered:
            assert f"reported by {word.check}" in said(capsys, name) or word.check == spelled(name)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["truncaton"], "did you mean truncation"),
        (["zzzzz"], "roundhouse explain lists the checks"),
        (["\x1b[31m"], "roundhouse explain lists the checks"),
    ],
)
def test_an_unknown_name_is_one_line_with_near_ones(words: list[str], hint: str, capsys: Captured) -> None:
    assert main(["explain", *words]) == 2
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 1
    assert "\x1b" not in error


def test_a_metric_that_is_a_signal_too_is_introduced_in_one_line(capsys: Captured) -> None:
    lines = said(capsys, "max_w").splitlines()
    assert lines[0].startswith("max_w (reported by importance-weight): ")
    assert lines[1:3] == ["", "importance-weight"]


def test_several_names_are_several_manuals(capsys: Captured) -> None:
    both = said(capsys, "prefix-break", "truncation")
    assert both == f"{said(capsys, 'prefix-break')}\n{said(capsys, 'truncation')}"
    assert main(["explain", "prefix-break", "truncaton"]) == 2
    assert "'truncaton'; did you mean truncation" in capsys.readouterr().err
