"""The demo's child processes: started, waited for until they listen, and always stopped."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from collector.errors import UserError
from collector.ready_file import read_ready_file

STOP_LIMIT_S = 20.0
"""Longest a child may take to stop by itself; the collector finishes running replies first."""
POLL_S = 0.1

NAMES = {"engine": "engine", "collect": "collector"}
"""Subcommands that serve, and what runs when they do."""

PROJECT = Path(__file__).parents[2]
"""Where the packages lie. Children start there, so that `-m console` finds ours and not one of the user's folder."""


class Child:
    """One `roundhouse` subcommand in a process of its own, its output in a log file. Paths given to it are absolute."""

    def __init__(self, command: str, arguments: list[str], folder: Path, *, config: str = os.devnull) -> None:
        """`config` holds its settings: never those of whoever runs the demo, their keys and names are their own."""
        self._command = command
        self.name = NAMES[command]
        self.log = folder / f"{command}.log"
        self._ready = folder / f"{command}.ready"
        words = [command, *arguments, "--config", config, "--port", "0", "--ready-file", str(self._ready)]
        # The pipe ends with this process, however it ends, and the child with the pipe.
        words.append("--stop-with-stdin")
        with open(self.log, "wb") as out:
            # A session of its own: Ctrl-C reaches the demo alone, which then stops the children in order.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "console", *words],
                cwd=PROJECT,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self, limit_s: float) -> str:
        """The URL it serves at, once it does; UserError when it ends or is too slow."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if self._ready.exists():
                return read_ready_file(self._ready).url
            if self._process.poll() is not None:
                raise UserError(self._refusal())
            time.sleep(POLL_S)
        raise UserError(f"the {self.name} was not ready after {limit_s:.0f} s: {self._last_line()}")

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def ended(self) -> str:
        """In words, how it ended and what it said last."""
        return f"the {self.name} ended with exit code {self._process.poll()}: {self._last_line()}"

    def stop(self) -> bool:
        """Ends the process and waits for it; whether it ended by itself with exit code 0."""
        if self.running:
            self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close_pipe()
        return self._process.returncode == 0

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait()
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _refusal(self) -> str:
        """Its own one line where it gave one, else how it ended."""
        _, own, line = self._last_line().partition(f"roundhouse {self._command}: ")
        return line if own else f"{self.ended()}, before it was ready"

    def _last_line(self) -> str:
        with contextlib.suppress(OSError):
            lines = [line.strip() for line in self.log.read_text("utf-8", "replace").splitlines() if line.strip()]
            if lines:
                return lines[-1]
        return "it said nothing"


def stop_all(children: list[Child]) -> list[str]:
    """Stops the children in their order; the names of those that did not end by themselves with exit code 0."""
    try:
        return [child.name for child in children if not child.stop()]
    except KeyboardInterrupt:
        # A second Ctrl-C: no more waiting, and still no process left behind.
        for child in children:
            child.kill()
        raise
