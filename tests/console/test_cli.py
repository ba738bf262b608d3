"""The `roundhouse` command itself: what is not a command is named, and a number out of range names its flag."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from console.cli import main
from tests.benchmarks.synthetic_store import write_store

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nope"], "roundhouse: no option --nope before a command, expected --help or --version\n"),
        (["-x", "collect"], "roundhouse: no option -x before a command, expected --help or --version\n"),
        (["colect"], "roundhouse: no command 'colect'; did you mean collect?\n"),
        (["plam", "--model", "x"], "roundhouse: no command 'plam'; did you mean plan?\n"),
        (["zzz"], "roundhouse: no command 'zzz'; roundhouse --help lists them\n"),
    ],
)
def test_what_is_no_command_is_named(words: list[str], said: str, capsys: Captured) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_asked_for_either_way(flag: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main([flag])
    assert ended.value.code == 0
    assert capsys.readouterr().out == "roundhouse 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["engine", "--port", "99999"], "--port is 99999, expected a whole number <= 65535"),
        (["engine", "--port", "-1"], "--port is -1, expected a whole number >= 0"),
        (["engine", "--threads", "0"], "--threads is 0, expected a whole number >= 1"),
        (["engine", "--max-context", "0"], "--max-context is 0, expected a whole number >= 1"),
        (["collect", "--engine", "http://e", "--port", "99999"], "--port is 99999, expected 0 to 65535"),
        (["collect", "--engine", "http://e", "--port", "-1"], "--port is -1, expected 0 to 65535"),
    ],
)
def test_a_number_out_of_range_names_its_flag_and_its_value(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"roundhouse {words[0]}: {said}")
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["explain", "mfu"], ["watch", "STORE", "--plain", "logs"]])
def test_an_output_that_takes_nothing_is_said_in_one_line(words: list[str], unbuffered: str, tmp_path: Path) -> None:
    write_store(tmp_path / "store", turns=8, steps=1, end=datetime(2026, 5, 1, tzinfo=UTC))
    given = [str(tmp_path / "store") if word == "STORE" else word for word in words]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "console", *given],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            timeout=120,
        )
    said = f"roundhouse {words[0]}: output cannot be written: No space left on device; make room for it\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_a_closed_output_is_said_in_one_line(tmp_path: Path) -> None:
    write_store(tmp_path / "store", turns=8, steps=1, end=datetime(2026, 5, 1, tzinfo=UTC))
    closed = ["sh", "-c", 'exec "$0" -m console watch "$1" --plain logs >&-', sys.executable, str(tmp_path / "store")]
    ended = subprocess.run(closed, stderr=subprocess.PIPE, text=True, timeout=120)
    assert ended.returncode == 2
    assert ended.stderr.startswith("roundhouse watch: standard output is closed; ")
    assert ended.stderr.count("\n") == 1
