"""`roundhouse check` where its output cannot go: one line, and exit code 2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.cli import main

ROOT = Path(__file__).parents[3]
FIRES = str(ROOT / "samples" / "truncation" / "fires.jsonl")


def run_in_shell(tail: str) -> tuple[int, str]:
    """Exit code and stderr of the command, its stdout sent somewhere by a shell."""
    script = f'exec "{sys.executable}" -m console check "{FIRES}" --select truncation {tail}'
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_is_said_in_one_line(form: str) -> None:
    code, err = run_in_shell(f"--format {form} >/dev/full")
    expected = "roundhouse check: standard output cannot be written: No space left on device; give --output FILE\n"
    assert (code, err) == (2, expected)


def test_a_closed_standard_output_is_said_before_anything_is_read() -> None:
    assert run_in_shell(">&-") == (2, "roundhouse check: standard output is closed; give --output FILE\n")


def test_a_closed_standard_error_changes_nothing() -> None:
    assert run_in_shell("2>&-")[0] == 1


def test_a_selection_of_nothing_is_not_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", FIRES, "--select", " ,"]) == 2
    assert "leave no check" in capsys.readouterr().err
