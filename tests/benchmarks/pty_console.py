"""The console in a real terminal: a child on a pty, what it draws, and what it costs."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")
_QUIET_S = 0.02
"""A frame has ended when nothing more came for so long."""


class PtyConsole:
    """One child on a pty of 120x36; it is ended at the end, however that comes."""

    def __init__(self, words: Sequence[str], *, columns: int = 120, rows: int = 36) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.drawn_bytes = 0
        self.started = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
            # An installed console has its bytecode.
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            os.chdir(ROOT)
            os.execve(sys.executable, [sys.executable, *words], environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def __enter__(self) -> "PtyConsole":
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + 10
        while time.monotonic() < end and os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            self.read(0.05)
        else:
            if time.monotonic() >= end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        os.close(self._fd)

    def read(self, wait_s: float) -> int:
        """Takes in what is drawn within a time; how many bytes."""
        end, taken = time.monotonic() + wait_s, 0
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._fd], [], [], left)[0]:
                break
            try:
                content = os.read(self._fd, 1 << 16)
            except OSError:
                break
            self._stream.feed(content)
            taken += len(content)
        self.drawn_bytes += taken
        return taken

    def text(self) -> str:
        """The screen as text."""
        return "\n".join(self._screen.display)

    def wait_for(self, words: str, limit_s: float) -> float:
        """Seconds since the start at which the words stood on the screen; an error after the limit."""
        while words not in self.text():
            if time.monotonic() - self.started > limit_s:
                raise TimeoutError(f"{words!r} did not come:\n{self.text()}")
            self.read(0.005)
        return time.monotonic() - self.started

    def settle(self, quiet_s: float, limit_s: float) -> None:
        """Waits until nothing was drawn for a while."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.read(quiet_s):
            pass

    def press(self, key: str, limit_s: float = 10.0) -> float | None:
        """Seconds from a key until the frame it leads to was drawn; None when none came."""
        self.read(0.001)
        begun = time.monotonic()
        os.write(self._fd, key.encode())
        if not select.select([self._fd], [], [], limit_s)[0]:
            return None
        last = time.monotonic()
        while select.select([self._fd], [], [], _QUIET_S)[0]:
            self.drawn_bytes += self._take()
            last = time.monotonic()
        return last - begun

    def _take(self) -> int:
        content = os.read(self._fd, 1 << 16)
        self._stream.feed(content)
        return len(content)

    def cpu_s(self) -> float:
        """Processor time of the console so far."""
        return _cpu_s(self.pid)

    def children_cpu_s(self) -> float:
        """Processor time so far of the processes that it started and that still run."""
        return sum(_cpu_s(pid) for pid in _children(self.pid))

    def rss_mb(self) -> float:
        """Resident memory of the console alone."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
