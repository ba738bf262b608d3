"""A long log in a real terminal: its newest part while the rest is read, by no process that outlives the console."""

import json
import time
from pathlib import Path

import pytest

from console.watch.source.log_rows import END_BYTES
from tests.console.watch.terminal import Terminal, watch_words


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Turns that take some seconds to read."""
    path = tmp_path_factory.mktemp("long") / "log.jsonl"
    ids = json.dumps([100_000 + each for each in range(2_000)])
    with path.open("w") as file:
        for number in range(3_000):
            names = f'"session_id": "s{number // 8}", "turn": {number % 8 + 1}'
            file.write(f'{{{names}, "prompt_ids": {ids}, "completion_ids": [{number}]}}\n')
    return path


def children(pid: int) -> set[int]:
    """The processes that it started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {int(child) for task in tasks for child in (task / "children").read_text().split()}


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_left_while_it_reads_it_leaves_no_process(tmp_path: Path, log: Path, key: str):
    with Terminal(watch_words(str(log)), tmp_path, size=(120, 36)) as terminal:
        terminal.until(b"newest 2")
        while not (reading := children(terminal.program.pid)):
            time.sleep(0.02)
        terminal.press(key)
        assert terminal.ended() == 0
        assert b"LOG read" not in terminal.seen
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in reading):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_newest_part_stands_there_until_all_of_it_was_read(tmp_path: Path, log: Path):
    content = log.read_bytes()
    line_bytes = len(content) / 3_000
    with Terminal(watch_words(str(log)), tmp_path, size=(120, 36)) as terminal:
        terminal.until(f"newest {int(END_BYTES / line_bytes)} turns; reading".encode())
        assert b"LOG read" not in terminal.seen
        terminal.until(b"LOG read")
        terminal.press("5")
        terminal.until(b"375 sessions, 3,000 turns")
