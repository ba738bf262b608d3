"""The demo as a user runs it, with a tiny model: it ends well, ends cleanly when interrupted, and says what failed."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch

from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from trainer.tiny_model import write_tiny_model

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny-model", context=16_384)


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts demos and leaves none behind."""
    demos: list[subprocess.Popen[str]] = []

    def start(store: Path, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "console", "demo", "--store", str(store), *arguments]
        demo = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
        )
        demos.append(demo)
        return demo

    yield start
    for demo in demos:
        if demo.poll() is None:
            demo.terminate()
        demo.communicate(timeout=60)


def _heed_interrupts() -> None:
    """A background job of a shell ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def wait_for_turns(demo: subprocess.Popen[str]) -> None:
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("10 turns"):
            return
    raise AssertionError("the demo ended before its tenth turn")


def left_over(store: Path, model: Path) -> list[str]:
    """Command lines of processes that still mention the run's folders."""
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(store) in line or str(model) in line]


def test_it_captures_what_it_says_and_leaves_no_process(start: Start, model: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    demo = start(store, "--turns", "13", "--model", str(model), "--plain")
    out, err = demo.communicate(timeout=200)
    assert (demo.returncode, err) == (0, "")
    with Reader(store).snapshot(["turns", "feedback"]) as snapshot:
        turns, feedback = snapshot.frame("turns"), snapshot.frame("feedback")
    sampled = sum(map(len, turns["completion_ids"].to_list()))
    later = turns.filter(turns["turn"] > 1).height
    assert turns.height == 13
    assert re.search(r"turns +13 in \d+ s, \d+ with a well-formed tool call", out)
    assert f"extending  {later} of {later} later turns, token for token" in out
    assert f"with mu    {sampled:,} of {sampled:,} sampled tokens" in out
    assert f"feedback   {feedback.height} judgements" in out
    assert f"verify: {turns.height + feedback.height} records, clean" in out
    assert turns["trainable"].all()
    assert set(turns["task_id"]) == {"write-0"}
    assert feedback.filter(feedback["kind"] == "accept").height == 13
    assert "\x1b" not in out
    assert left_over(store, model) == []


def test_ctrl_c_stops_everything_and_keeps_what_was_captured(start: Start, model: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    demo = start(store, "--turns", "100000", "--model", str(model), "--plain")
    wait_for_turns(demo)
    os.kill(demo.pid, signal.SIGINT)
    assert demo.stdout is not None
    for line in demo.stdout:
        if line == "stopping: replies under way are recorded first\n":
            break
    out, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "roundhouse demo: interrupted\n")
    assert left_over(store, model) == []
    with Reader(store).snapshot(["turns"]) as snapshot:
        turns = snapshot.frame("turns")
    assert turns.height >= 10
    sessions = turns["session_id"].n_unique()
    assert out.splitlines()[:4] == [
        f"stopped; {turns.height} turns of {sessions} sessions are captured in {store}",
        "",
        "where to look next",
        f"  roundhouse check {store}",
    ]
    assert verify(store).clean


def test_children_end_when_the_demo_is_killed(start: Start, model: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    demo = start(store, "--turns", "100000", "--model", str(model), "--plain")
    wait_for_turns(demo)
    demo.kill()
    demo.communicate(timeout=60)
    end = time.monotonic() + 40
    while left_over(store, model) and time.monotonic() < end:
        time.sleep(0.1)
    assert left_over(store, model) == []
    with Writer(store, "collector"):
        pass
    assert verify(store).clean


def test_a_store_in_use_is_refused_before_anything_is_loaded(start: Start, model: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Writer(store, "collector"):
        demo = start(store, "--turns", "3", "--model", str(model), "--plain")
        out, err = demo.communicate(timeout=60)
    said = f"{store}/journals/collector.sqlite: locked by the process with pid {os.getpid()}"
    assert (demo.returncode, out) == (2, "")
    assert err == f"roundhouse demo: {said}, expected no other writer; stop it first\n"


def test_a_child_that_fails_is_one_line(start: Start, model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tokenizer.json").write_text("{}")
    demo = start(tmp_path / "store", "--turns", "3", "--model", str(broken), "--plain")
    _, err = demo.communicate(timeout=100)
    assert demo.returncode == 2
    said = f"{broken}: no config.json found, expected the folder of a Hugging Face model"
    assert err == f"roundhouse demo: {said}\n"
    assert left_over(tmp_path, broken) == []


@pytest.mark.long
def test_an_engine_that_dies_half_way_ends_the_demo(start: Start, model: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    demo = start(store, "--turns", "100000", "--model", str(model), "--plain")
    wait_for_turns(demo)
    [engine] = [child for child in psutil.Process(demo.pid).children() if "engine" in child.cmdline()]
    engine.kill()
    _, err = demo.communicate(timeout=100)
    assert demo.returncode == 2
    assert err.count("\n") == 1
    assert err.startswith("roundhouse demo: a call through the collector failed: ")
    assert "the engine ended with exit code -9" in err
    assert left_over(store, model) == []
    assert verify(store).clean


@pytest.mark.long
def test_on_a_terminal_it_draws_and_ends_with_the_same_report(model: Path, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "console", "demo", "--store", str(tmp_path / "store"), "--turns", "6"]
    demo = subprocess.Popen([*command, "--model", str(model)], stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    seen = b""
    # Linux reports the other end's closing as an error.
    with contextlib.suppress(OSError):
        while piece := os.read(leader, 65536):
            seen += piece
    os.close(leader)
    assert demo.wait(60) == 0
    text = seen.decode("utf-8", "replace")
    assert "\x1b[" in text
    assert "loading tiny-model into the engine" in text
    assert "0 of 6 turns; 2 agents await their first replies" in text
    assert "6 of 6 turns, 0 as asked" in text
    assert "turns      6 in" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--turns", "0"], "--turns is 0, expected 1 or more"),
        (
            ["--turns", "9", "--sabotage", "reward"],
            "--turns and --sabotage are both given; with --turns no cycle runs that could be sabotaged",
        ),
        (["--minutes", "-1"], "--minutes is -1.0, expected more than 0"),
        (["--minutes", "nan"], "--minutes is nan, expected more than 0"),
        (["--model", "/nowhere"], "--model /nowhere has no tokenizer.json; give the folder of a Hugging Face model"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_at_once(
    start: Start, tmp_path: Path, arguments: list[str], said: str
) -> None:
    demo = start(tmp_path / "store", *arguments)
    out, err = demo.communicate(timeout=30)
    assert (demo.returncode, out, err) == (2, "", f"roundhouse demo: {said}\n")
    assert not (tmp_path / "store").exists()
