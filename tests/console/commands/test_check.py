"""`roundhouse check` as a shell and a CI job see it: outputs, exit codes, and one line for what cannot be used."""

import gzip
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from checks.suite import CHECKS
from console.cli import main
from trainer.tiny_model import write_byte_tokenizer

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "samples" / "truncation"
FIRES, HEALTHY = str(SAMPLE / "fires.jsonl"), str(SAMPLE / "healthy.jsonl")
ONLY = ["--select", "truncation"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No roundhouse.toml of the repository is found."""
    monkeypatch.chdir(tmp_path)


def turns(*finishes: str | None, **fields: Any) -> str:
    """A native log with a session for each finish reason."""
    return "".join(
        json.dumps({"session_id": f"s{n}", "prompt_ids": [1], "completion_ids": [2], "finish_reason": why} | fields)
        + "\n"
        for n, why in enumerate(finishes)
    )


def shell(*words: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "console", "check", *words],
        capture_output=True,
        timeout=100,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | options.pop("env", {}),
        **options,
    )


def refused(capsys: Captured, *words: str) -> str:
    """The one line of a refusal."""
    assert main(["check", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("roundhouse check: ")
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


# what is 1 in 10: between warn (0.05) and fail (0.25)
WARNS = turns(*["length"], *["stop"] * 9)


@pytest.mark.parametrize(
    ("log", "fail_on", "code"),
    [
        (turns("stop"), "warn", 0),
        (WARNS, "warn", 1),
        (WARNS, "fail", 0),
        (WARNS, None, 0),
        (turns("length"), None, 1),
        (turns("length"), "fail", 1),
        (turns("length"), "never", 0),
        (turns(None), "warn", 0),
    ],
)
def test_the_exit_code_says_whether_anything_is_grave_enough(
    log: str, fail_on: str | None, code: int, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "log.jsonl").write_text(log)
    flag = [] if fail_on is None else ["--fail-on", fail_on]
    assert main(["check", "log.jsonl", *ONLY, *flag]) == code
    assert capsys.readouterr().err == ""


def test_text_is_the_default_and_names_the_place(capsys: Captured) -> None:
    assert main(["check", FIRES, *ONLY]) == 1
    out = capsys.readouterr().out
    assert "✗ FAIL  truncation  50 % of turns  warn 5 %, fail 25 %  1 of 2 turns were cut by the length limit\n" in out
    assert "    session a · turn 1 · 2 tokens · cut by the length limit  [fires.jsonl:1]\n" in out
    assert "\x1b" not in out


def test_json_is_one_object_with_every_selected_check(capsys: Captured) -> None:
    assert main(["check", FIRES, "--format", "json"]) in (0, 1)
    whole = json.loads(capsys.readouterr().out)
    assert [finding["check"] for finding in whole["findings"]] == [check.name for check in CHECKS]
    found = next(finding for finding in whole["findings"] if finding["check"] == "truncation")
    assert (found["status"], found["value"], found["threshold"]) == ("fail", 0.5, {"warn": 0.05, "fail": 0.25})
    assert found["evidence"] == [{"session_id": "a", "turn": 1, "value": 2, "text": "cut by the length limit"}]
    assert whole["source"]["tokens"] == 8
    assert whole["metrics"]["truncated_share"] == 0.5


def test_junit_and_html_are_what_they_say(capsys: Captured) -> None:
    assert main(["check", FIRES, *ONLY, "--format", "junit"]) == 1
    assert Xml.fromstring(capsys.readouterr().out).attrib["failures"] == "1"
    assert main(["check", FIRES, *ONLY, "--format", "junit", "--fail-on", "never"]) == 0
    assert Xml.fromstring(capsys.readouterr().out).attrib["failures"] == "0"
    assert main(["check", FIRES, *ONLY, "--format", "html"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("<!DOCTYPE html>")
    assert out.endswith("</html>\n")


@pytest.mark.parametrize("kind", ["text", "json", "junit", "html"])
def test_a_file_gets_the_report_and_stdout_one_line(kind: str, tmp_path: Path, capsys: Captured) -> None:
    main(["check", FIRES, *ONLY, "--format", kind])
    printed = capsys.readouterr().out
    assert main(["check", FIRES, *ONLY, "--format", kind, "--output", "report"]) == 1
    assert (tmp_path / "report").read_text(encoding="utf-8") == printed
    assert capsys.readouterr().out == "report: 1 failed\n"


def test_checks_are_chosen_by_name(capsys: Captured) -> None:
    names = [check.name for check in CHECKS]
    main(["check", HEALTHY, "--format", "json", "--ignore", "truncation"] if len(names) > 1 else ["check", HEALTHY])
    out = capsys.readouterr().out
    if len(names) > 1:
        assert [f["check"] for f in json.loads(out)["findings"]] == [name for name in names if name != "truncation"]
        main(["check", HEALTHY, "--format", "json", "--select", f"{names[1]}, {names[0]}"])
        assert [f["check"] for f in json.loads(capsys.readouterr().out)["findings"]] == names[:2]
    assert "no check 'x', expected some of" in refused(capsys, HEALTHY, "--select", "truncation,x")
    assert "leave no check" in refused(capsys, HEALTHY, *ONLY, "--ignore", "truncation")


def test_thresholds_come_from_the_file_named_or_the_one_here(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "own.toml").write_text("[checks.thresholds.truncation]\nwarn_at = 0.6\nfail_at = 0.7\n")
    assert main(["check", FIRES, *ONLY, "--config", "own.toml"]) == 0
    capsys.readouterr()
    (tmp_path / "own.toml").rename(tmp_path / "roundhouse.toml")
    assert main(["check", FIRES, *ONLY, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["findings"][0]["threshold"] == {"warn": 0.6, "fail": 0.7}
    assert err == f"settings from {tmp_path / 'roundhouse.toml'}\n"
    assert "does not exist" in refused(capsys, "nowhere.jsonl")
    (tmp_path / "roundhouse.toml").write_text("[checks.thresholds.truncation]\nwarn = 0.6\n")
    assert "roundhouse.toml: [checks.thresholds.truncation] warn: no such threshold" in refused(capsys, HEALTHY)
    (tmp_path / "roundhouse.toml").write_text("[checks.thresholds.nope]\nwarn_at = 0.6\n")
    assert "no check 'nope'" in refused(capsys, HEALTHY)


def test_a_tokenizer_gives_tokens_their_text(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "model").mkdir()
    write_byte_tokenizer(tmp_path / "model")
    (tmp_path / "log.jsonl").write_text(turns("length", completion_ids=[*b"no end \x1b["]))
    assert main(["check", "log.jsonl", *ONLY, "--tokenizer", "model"]) == 1
    out = capsys.readouterr().out
    assert re.search(r'^ +> +8 +91  "\["$', out, re.MULTILINE), out
    assert '"\\x1b"' in out
    (tmp_path / "model" / "tokenizer_config.json").write_text("{}")
    (tmp_path / "model" / "chat_template.jinja").unlink(missing_ok=True)
    assert main(["check", "log.jsonl", *ONLY, "--tokenizer", "model"]) == 1, "a folder without a template will do"


def test_formats_are_listed_without_a_path(capsys: Captured) -> None:
    assert main(["check", "--formats"]) == 0
    assert re.match(r"native +Roundhouse's own: lines of JSON, Parquet, DuckDB or a store\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no PATH, expected a log file, a folder of one run's logs, or a store"),
        (["nowhere"], "nowhere does not exist; give a log file"),
        (["no\nwhere\x1b[2J"], "no\\nwhere\\x1b[2J does not exist"),
        ([HEALTHY, "--reads", "nope"], "no format 'nope', expected one of"),
        ([HEALTHY, "--format", "pdf"], "--format: invalid choice: 'pdf'"),
        ([HEALTHY, "--fail-on", "info"], "--fail-on: invalid choice: 'info'"),
        ([HEALTHY, "--nope"], "unrecognized arguments: --nope"),
        ([HEALTHY, "--tokenizer", "nowhere"], "nowhere holds no tokenizer.json"),
        ([HEALTHY, "--config", "nowhere.toml"], "nowhere.toml cannot be read"),
        ([HEALTHY, "--output", "."], "--output . is a folder, expected a file"),
        ([HEALTHY, "--output", "no/report"], "--output no/report: there is no folder no; make it first"),
    ],
)
def test_a_call_that_cannot_be_used_is_one_line(words: list[str], said: str, capsys: Captured) -> None:
    assert said in refused(capsys, *words)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.jsonl", b""),
        ("blank.jsonl", b"\n\n   \n"),
        ("zeros.bin", bytes(10_000)),
        ("junk.bin", bytes(range(256)) * 40),
        ("text.jsonl", b"not json at all\n"),
        ("list.json", b"[1, 2, 3]"),
        ("deep.json", b"[" * 100_000),
        ("latin1.jsonl", '{"session_id": "é"}\n'.encode("latin-1")),
        ("utf16.jsonl", '{"session_id": "e"}\n'.encode("utf-16")),
        ("cut.jsonl.gz", gzip.compress(turns("stop").encode(), mtime=0)[:-20]),
        ("not.gz", b"not gzip"),
        ("cut.zip.pt", b"PK\x03\x04" + bytes(100)),
        ("cut.parquet", b"PAR1" + bytes(100)),
        ("cut.sqlite", b"SQLite format 3\x00" + bytes(100)),
        ("pickle.pkl", b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR."),
        ("no_turns.jsonl", b'{"record": "turn"}\n{"record": "turn", "session_id": []}\n'),
    ],
)
def test_input_that_is_no_log_is_one_line(name: str, content: bytes, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / name).write_bytes(content)
    assert name in refused(capsys, name)
    (tmp_path / "folder").mkdir()
    (tmp_path / name).rename(tmp_path / "folder" / name)
    refused(capsys, "folder")
    assert not (tmp_path / "pwned").exists()


def test_a_folder_without_logs_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "bare").mkdir()
    refused(capsys, "bare")
    (tmp_path / "bare" / "README.md").write_text("# nothing here\n")
    refused(capsys, "bare")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "log.jsonl").write_text(turns("stop"))
    (tmp_path / "log.jsonl").chmod(0)
    assert "log.jsonl cannot be read: Permission denied" in refused(capsys, "log.jsonl")


def test_a_device_that_fails_to_be_read_is_one_line(capsys: Captured) -> None:
    # Reading this file fails with an OSError even for root.
    path = Path("/proc/self/mem")
    if not path.exists():
        pytest.skip("no /proc here")
    assert "/proc/self/mem" in refused(capsys, str(path))


def test_the_readable_rest_is_checked_and_the_broken_lines_are_counted(tmp_path: Path, capsys: Captured) -> None:
    good = turns("length", "stop").splitlines()
    broken = ['{"session_id": "x", "prompt_ids": [1]', '"text"', '{"session_id": 7, "prompt_ids": "no"}', "\x00\x01"]
    (tmp_path / "log.jsonl").write_text("\n".join([good[0], *broken, good[1]]))
    assert main(["check", "log.jsonl", *ONLY]) == 1
    out = capsys.readouterr().out
    assert "4 pieces could not be read:\n  log.jsonl:2: " in out
    assert "1 of 2 turns were cut by the length limit" in out
    main(["check", "log.jsonl", *ONLY, "--format", "json"])
    source = json.loads(capsys.readouterr().out)["source"]
    assert (source["turns"], source["unreadable"]) == (2, 4)
    assert [each["place"] for each in source["unreadable_first"]] == [f"log.jsonl:{n}" for n in (2, 3, 4, 5)]


def test_numbers_that_json_lacks_are_read_and_never_written(tmp_path: Path, capsys: Captured) -> None:
    line = '{"session_id": "s", "prompt_ids": [1], "completion_ids": [2, 3], "finish_reason": "length", %s}\n'
    (tmp_path / "log.jsonl").write_text(
        turns("stop") + line % '"sampled_logprobs": [NaN, -Infinity], "reward": Infinity'
    )
    code = main(["check", "log.jsonl", "--format", "json"])
    out = capsys.readouterr().out
    assert code == 1
    json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    for kind in ("text", "junit", "html"):
        assert main(["check", "log.jsonl", "--format", kind]) == 1
        assert capsys.readouterr().out


def test_text_of_models_in_a_log_reaches_no_terminal(tmp_path: Path, capsys: Captured) -> None:
    hostile = "\x1b]0;pwned\x07<script>alert(1)</script>\u202e"
    (tmp_path / "log.jsonl").write_text(turns("length", session_id=hostile))
    for kind in ("text", "junit", "html"):
        assert main(["check", "log.jsonl", *ONLY, "--format", kind]) == 1
        out = capsys.readouterr().out
        assert all(letter.isprintable() or letter == "\n" for letter in out)
        assert "\\x1b]0;pwned\\x07" in out
        assert ("<script" in out) == (kind == "text")


def test_a_closed_pipe_ends_the_command_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(turns(*["length"] * 5000))
    words = [sys.executable, "-m", "console", "check", "log.jsonl", *ONLY, "--format", "json"]
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.read(10)
    child.stdout.close()
    assert child.wait(100) == 141
    assert child.stderr.read() == b""
    child.stderr.close()


def test_an_interrupt_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(turns(*["length"] * 300_000))
    starts = (
        "import console.cli, checks.suite, sys; print('ready', flush=True); sys.exit(console.cli.main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", starts, "check", "log.jsonl", *ONLY, "--format", "json"]
    child = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        # What a shell starts behind its back ignores the signal, and so would what that starts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=100)
    assert (child.returncode, out, err) == (130, b"", b"roundhouse check: interrupted\n")


def test_other_encodings_of_stdout_keep_their_encoding(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(turns("length", session_id="é☃"))
    plain = shell("log.jsonl", *ONLY, env={"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"})
    assert (plain.returncode, plain.stderr) == (1, b"")
    assert "x FAIL  truncation" in plain.stdout.decode("latin-1")
    assert "session é\\u2603" in plain.stdout.decode("latin-1")
    whole = shell("log.jsonl", *ONLY, "--format", "json", env={"PYTHONIOENCODING": "ascii"})
    assert json.loads(whole.stdout.decode())["findings"][0]["evidence"][0]["session_id"] == "é☃"


@pytest.mark.parametrize(("columns", "no_colour"), [(60, ""), (120, ""), (80, "1")])
def test_on_a_terminal_it_fits_and_is_coloured_unless_told_not_to(columns: int, no_colour: str) -> None:
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm-256color", "COLUMNS": str(columns), "NO_COLOR": no_colour, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(
        [sys.executable, "-m", "console", "check", FIRES, *ONLY], stdout=theirs, stderr=theirs, env=os.environ | env
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert child.wait(60) == 1
    text = shown.decode().replace("\r\n", "\n")
    assert ("\x1b[" in text) == (no_colour == "")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= columns
    assert "✗ FAIL  truncation" in plain


def test_a_log_whose_only_piece_cannot_be_read_says_so_in_the_singular(tmp_path: Path, capsys: Captured) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"session_id": "a", "prompt_ids": [1], "completion_ids": "cut"}\n')
    assert main(["check", str(log)]) == 2
    assert "; 1 piece could not be read (log.jsonl:1: " in capsys.readouterr().err
