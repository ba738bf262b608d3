"""A pseudo-terminal with a program in it."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[3]


class Terminal:
    """What a program writes to its terminal, and keys for it."""

    def __init__(self, words: Sequence[str], home: Path, *, size: tuple[int, int] = (80, 24), **more: str) -> None:
        self._master, slave = pty.openpty()
        columns, rows = size
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.modes = termios.tcgetattr(slave)
        self._slave = slave
        # A size in the environment would hide that of the terminal.
        hidden = ("COLUMNS", "LINES", "NO_COLOR")
        plain = {name: value for name, value in os.environ.items() if name not in hidden}
        environment = {**plain, "HOME": str(home), "TERM": "xterm-256color", "COLORTERM": "truecolor", **more}
        self.program = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment, start_new_session=True
        )
        self.seen = bytearray()

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.program.poll() is None:
            os.killpg(self.program.pid, signal.SIGKILL)
        self.program.wait(20)
        self.hang_up()
        os.close(self._slave)

    def read(self, for_s: float = 0.1) -> bytes:
        """What comes until nothing comes for so long."""
        came = bytearray()
        while select.select([self._master], [], [], for_s)[0]:
            part = os.read(self._master, 65536)
            came += part
        self.seen += came
        return bytes(came)

    def until(self, words: bytes, within_s: float = 60.0) -> None:
        """Reads until the words have come."""
        last = time.monotonic() + within_s
        while words not in self.seen:
            self.read()
            assert time.monotonic() < last, f"{words!r} did not come; there was {bytes(self.seen[-2000:])!r}"
            assert self.program.poll() is None or words in self.seen, bytes(self.seen[-3000:])

    def resize(self, columns: int, rows: int) -> None:
        """Another size; the program is told by the kernel."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.killpg(self.program.pid, signal.SIGWINCH)

    def press(self, keys: str) -> None:
        """Types."""
        os.write(self._master, keys.encode())

    def ended(self, within_s: float = 30.0) -> int:
        """The exit code, with everything read."""
        last = time.monotonic() + within_s
        while self.program.poll() is None:
            self.read(0.05)
            assert time.monotonic() < last, f"it runs on; there was {bytes(self.seen[-2000:])!r}"
        self.read()
        return self.program.returncode

    def hang_up(self) -> None:
        """The window is closed."""
        if self._master >= 0:
            os.close(self._master)
        self._master = -1

    @property
    def modes_now(self) -> list[object]:
        """Of the terminal, as its driver has them."""
        return termios.tcgetattr(self._slave)


WORDS = [sys.executable, "-m", "tests.console.watch.words_program"]


def watch_words(*arguments: str) -> list[str]:
    """`roundhouse watch` with arguments."""
    return [sys.executable, "-m", "console", "watch", *arguments]
