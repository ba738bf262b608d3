"""`roundhouse watch` as a command: what it refuses, and what it prints without a terminal."""

import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from checks.readers.open_log import open_log
from checks.report import as_json
from checks.suite import run as run_checks
from console.cli import main
from tests.benchmarks.synthetic_store import write_store
from tests.console.watch.terminal import Terminal

END = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store whose newest record is at a known time."""
    folder = tmp_path_factory.mktemp("watched") / "store"
    write_store(folder, turns=64, steps=8, end=END)
    return folder


def said(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a call."""
    code = main(["watch", *map(str, words)])
    return code, *capfd.readouterr()


def test_without_a_terminal_it_names_the_options_that_need_none(store: Path, capfd: pytest.CaptureFixture[str]):
    expected = "roundhouse watch: no terminal; --plain SCREEN or --json SCREEN prints one screen without one\n"
    assert said(capfd, store) == (2, "", expected)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--interval", "0"], "--interval is 0.0, expected 0.05 to 60"),
        (["--window", "-1"], "--window is -1.0, expected more than 0"),
        (["--window", "60", "--window-turns", "5"], "are both given"),
        (["--at", "yesterday"], "'yesterday' is no time"),
        (["--at", "@99", "--plain", "signals"], "no step 99 with a time"),
        (["--adapter", "nobody", "--plain", "signals"], "no record is of the adapter 'nobody', expected"),
        (["--plain", "turn", "--session", "gone"], "session gone is not in what is watched"),
        (["--json", "token", "--session", "gone", "--turn", "2"], "session gone, turn 2 is not in what is watched"),
        (["--rw", "--plain", "signals"], "--rw is for the console"),
        (["--keymap", "keymap.toml", "--plain", "logs"], "--keymap is for the console; --plain and --json only print"),
        (["--no-mouse", "--json", "logs"], "--no-mouse is for the console"),
        (["--interval", "1", "--json", "logs"], "--interval is for the console"),
        (["--color", "256", "--plain", "logs"], "--color 256 is for the console; --plain and --json print without"),
        (["--color", "truecolor", "--json", "logs"], "--color truecolor is for the console"),
        (["--turn", "1"], "--turn is for --plain and --json"),
        (["--rows", "0", "--json", "logs"], "--rows is 0, expected 1 or more"),
        (["--plain", "token"], "give --session ID"),
        (["--plain", "token", "--session", "session-00000001"], "give --turn N"),
        (["--plain", "alerts", "--session", "s"], "alerts takes no --session: that is for turn, token, prefix_diff"),
        (["--json", "signals", "--turn", "1"], "signals takes no --turn"),
        (["--plain", "logs", "--token", "1"], "logs takes no --token: that is for token; leave it out"),
        (["--plain", "retok_diff", "--session", "s", "--turn", "1", "--token", "1"], "retok_diff takes no --token"),
        (["--plain", "turn", "--session", "session-00000001", "--turn", "99"], "turn 99 is not in what is watched"),
        (["--rw", "--web"], "--rw is for a terminal"),
        (["--no-mouse", "--web"], "--no-mouse is for a terminal; in the browser M hands the mouse over"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    store: Path, capfd: pytest.CaptureFixture[str], words: list[str], expected: str
):
    code, out, err = said(capfd, store, *words)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("form", ["--plain", "--json"])
@pytest.mark.parametrize(("token", "code"), [(0, 0), (7, 0), (8, 2), (999, 2), (-1, 2)])
def test_a_token_that_is_not_in_the_completion_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], form: str, token: int, code: int
):
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"session_id": "s", "turn": 1, "prompt_ids": [1, 2], "completion_ids": [*range(8)]}))
    found, out, err = said(capfd, log, form, "token", "--session", "s", "--turn", "1", "--token", token)
    assert (found, bool(out)) == (code, code == 0)
    refusal = f"--token {token}: there is no completion token {token}: the turn has tokens 0 to 7\n"
    assert err.endswith(refusal if code else "")


def test_a_path_that_is_not_there_and_a_window_of_a_log_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert "no such file or folder" in said(capfd, tmp_path / "nothing")[2]
    log = tmp_path / "log.jsonl"
    log.write_text("{}")
    assert "--window is for a store" in said(capfd, log, "--window", "60")[2]


def test_the_signals_in_json_are_the_numbers_of_check(store: Path, capfd: pytest.CaptureFixture[str]):
    code, out, _ = said(capfd, store, "--json", "signals", "--adapter", "refund")
    view = json.loads(out)
    metrics = json.loads(as_json(run_checks(open_log(store))))["metrics"]
    assert code == 0
    assert view["tokens_share"] == 1
    assert metrics["max_w"] == pytest.approx(1.001, abs=1e-4)
    lanes = {lane["signal"]: lane for lane in view["lanes"]}
    assert len(lanes) == 8
    assert lanes["max_w"]["worst"] == pytest.approx(metrics["max_w"])
    assert lanes["staleness"]["worst"] == pytest.approx(3.0)


def test_every_tab_prints_its_lines(store: Path, capfd: pytest.CaptureFixture[str]):
    for screen in ("traffic", "adapters", "logs"):
        code, out, _ = said(capfd, store, "--plain", screen)
        assert code == 0
        assert len(out.splitlines()) > 1, screen


def test_a_time_and_a_window_cut_what_is_printed(store: Path, capfd: pytest.CaptureFixture[str]):
    def turns(*words: object) -> int:
        return json.loads(said(capfd, store, "--json", "trajectories", "--rows", 100, *words)[1])["turns"]

    assert turns() == 64
    assert turns("--at", "2026-04-30T12:00Z") == 32
    assert turns("--at", "-5m") == 64
    assert turns("--window-turns", 16) == 16
    assert turns("--window", 60) == 0


@pytest.mark.parametrize("color", ["auto", "none"])
def test_what_is_printed_has_no_colour(store: Path, capfd: pytest.CaptureFixture[str], color: str):
    code, out, _ = said(capfd, store, "--plain", "adapters", "--color", color)
    assert code == 0
    assert "adapter" in out
    assert "\x1b" not in out


def test_what_is_printed_of_a_long_log_is_of_all_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    log = tmp_path / "log.jsonl"
    with log.open("w") as file:
        for number in range(400):
            turn = {"session_id": f"s{number // 8}", "turn": number % 8 + 1, "prompt_ids": [123456] * 2000}
            file.write(json.dumps({**turn, "completion_ids": [7], "sampled_logprobs": [-0.5]}) + "\n")
    assert log.stat().st_size > 6_000_000
    for screen in ("trajectories", "traffic"):
        code, out, _ = said(capfd, log, "--json", screen)
        view = json.loads(out)
        assert (code, view["total"], view["newest_turns"]) == (0, 50, None)
        assert (view["turns"] if screen == "trajectories" else view["numbers"]["turns"]) == 400
    code, out, _ = said(capfd, log, "--plain", "trajectories")
    assert out.startswith("50 sessions, 400 turns · 0 with a prefix break")


def test_ascii_prints_nothing_else(store: Path, capfd: pytest.CaptureFixture[str]):
    assert said(capfd, store, "--plain", "adapters", "--ascii")[1].isascii()


def test_the_first_frame_is_written_before_what_fills_it_is_loaded(store: Path, tmp_path: Path):
    said = tmp_path / "modules"
    words = [sys.executable, "-m", "tests.console.watch.first_frame_program", str(store), str(said)]
    driver = "tests.console.watch.first_frame_program:FirstFrame"
    with Terminal(words, tmp_path, size=(120, 36), TEXTUAL_DRIVER=driver) as terminal:
        assert terminal.ended(120) == 0
    loaded = set(said.read_text().split())
    assert {"textual.app", "console.watch.app"} <= loaded
    heavy = {"polars", "pyarrow", "numpy", "duckdb", "scipy", "torch", "transformers", "tokenizers", "aiohttp"}
    assert not loaded & {*heavy, "sqlite3", "console.watch.topics", "console.watch.held"}
    assert not {name for name in loaded if name.startswith(("checks", "trainer", "console.commands."))} - {
        "console.commands.watch"
    }


def damaged(store: Path, folder: Path) -> Path:
    """A copy of a store, one sealed file of turns cut short."""
    copy = folder / "damaged"
    shutil.copytree(store, copy)
    cut = sorted((copy / "segments" / "turns").glob("*.parquet"))[0]
    os.truncate(cut, 50)
    return copy


@pytest.mark.parametrize("screen", ["signals", "traffic", "adapters", "alerts", "trajectories", "logs"])
@pytest.mark.parametrize("form", ["--plain", "--json"])
def test_what_could_not_be_read_is_named_beside_every_print(
    store: Path, tmp_path: Path, form: str, screen: str, capfd: pytest.CaptureFixture[str]
):
    code, out, err = said(capfd, damaged(store, tmp_path), form, screen)
    assert code == 1
    assert out, "what could be read is shown"
    named = [line for line in err.splitlines() if line.startswith("roundhouse watch: not read: ")]
    assert len(named) == 1
    assert ".parquet" in named[0]


def test_lines_of_a_log_that_could_not_be_read_are_named_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    turn = {"record": "turn", "session_id": "s", "turn": 1, "prompt_ids": [1], "completion_ids": [2]}
    log = tmp_path / "log.jsonl"
    log.write_text(f"{json.dumps(turn)}\nno json\n", encoding="utf-8")
    code, out, err = said(capfd, log, "--plain", "traffic")
    assert (code, "sessions 1" in out) == (1, True)
    assert err.startswith("roundhouse watch: not read: ")
    assert err.count("\n") == 1
