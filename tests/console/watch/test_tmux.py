"""The command in a real tmux at 80x24: what an operator over ssh sees, key by key."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.watch.text_snapshot import SIZES, assert_as_before

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")


class Tmux:
    """One window of a server of its own."""

    def __init__(self, folder: Path, command: str) -> None:
        self._socket = folder / "tmux"
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", f"{command}; echo EXIT $?; sleep 60")

    def _run(self, *words: str) -> str:
        # A size in the environment would hide that of the window.
        plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "TMUX")}
        words = ("tmux", "-S", str(self._socket), *words)
        done = subprocess.run(words, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout

    def screen(self) -> list[str]:
        """The rows."""
        return self._run("capture-pane", "-p").split("\n")[:-1]

    def press(self, *keys: str) -> None:
        """Keys by tmux's names."""
        self._run("send-keys", *keys)

    def until(self, words: str, row: int | None = None) -> list[str]:
        """The screen once the words stand on it, in a row if that is given."""
        last = time.monotonic() + 60
        while True:
            seen = self.screen()
            if words in ("\n".join(seen) if row is None else (seen[row] if len(seen) > row else "")):
                return seen
            assert time.monotonic() < last, f"{words!r} is not on the screen:\n" + "\n".join(seen)
            time.sleep(0.1)

    def size(self, width: int, height: int) -> None:
        """Another size of the window."""
        self._run("resize-window", "-x", str(width), "-y", str(height))

    def end(self) -> None:
        """Ends the server of this test."""
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, timeout=20)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """`roundhouse watch` of a log with a fault, in a tmux without configuration."""
    log = tmp_path / "fires.jsonl"
    shutil.copy(ROOT / "samples" / "importance-weight" / "fires.jsonl", log)
    opened = Tmux(tmp_path, f"{sys.executable} -m console watch {log}")
    try:
        yield opened
    finally:
        opened.end()


def settled(tmux: Tmux) -> str:
    """What stands there once it is the same twice."""
    before, last = "", time.monotonic() + 60
    while (seen := "\n".join(line.rstrip() for line in tmux.screen())) != before:
        assert time.monotonic() < last, f"it does not stand still:\n{seen}"
        before = seen
        time.sleep(0.5)
    return seen


def test_the_lanes_under_tmux_look_as_before_at_each_size(tmux: Tmux) -> None:
    tmux.until("[1Sig]", 1)
    # The tokens are read: no number is the trainer's own any more.
    tmux.until("max_w      1.39")
    for width, height in SIZES:
        tmux.size(width, height)
        tmux.until("? help", height - 1)
        assert_as_before(f"tmux_signals_{width}x{height}", settled(tmux))


def test_every_screen_opens_at_80x24_follows_the_window_and_is_left(tmux: Tmux) -> None:
    tmux.until("[1Sig]", 1)
    tmux.until("fires.jsonl", 0)
    for key, name in (
        ("2", "[2Traf]"),
        ("5", "[5Traj]"),
        ("6", "[6Log]"),
        ("4", "[4Alert"),
        ("3", "[3Adapt]"),
        ("1", "[1Sig]"),
    ):
        tmux.press(key)
        seen = tmux.until(name, 1)
        assert len(seen) == 24
        assert all(len(line) <= 80 for line in seen)
    tmux.press("2")
    tmux.until("[2Traf]", 1)
    tmux.until("recorded")
    tmux.press("?")
    tmux.until("keys of this pane first")
    tmux.press("Escape")
    tmux.until("? help", 23)
    tmux.press(":")
    tmux.until(" :", 23)
    tmux.press("-l", "traj")
    tmux.press("Enter")
    tmux.until("[5Traj]", 1)
    tmux.press("Enter")
    tmux.until("trajectories › ")
    tmux.size(60, 15)
    tmux.until("? help", 14)
    tmux.size(40, 5)
    tmux.until("LOG read", 0)
    tmux.size(120, 36)
    tmux.until("? help", 35)
    tmux.press("q")
    # tmux leaves rows of the old size beside it, since the window was resized on the alternate screen.
    assert [line for line in tmux.until("EXIT 0") if line.strip()][-1].endswith("EXIT 0")
