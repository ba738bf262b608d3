"""The `roundhouse` command itself: what is not a command is named, and a number out of range names its flag."""

from pathlib import Path

import pytest

from console.cli import main

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
