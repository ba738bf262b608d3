"""A command as a target of notices: an argument list, no shell, the notice as JSON on its standard input."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable

from checks.alerting.config import DeliveryConfig
from collector.errors import UserError

_LOOK_S = 0.1
"""Between two looks whether it has had its time."""


class Command:
    """Runs once per notice; what it prints is not read."""

    def __init__(self, config: DeliveryConfig) -> None:
        if any("\0" in word for word in config.command) or not config.command[0]:
            raise UserError("[checks.alerts.delivery] command: expected a program and its arguments, without NUL")
        self._words = config.command
        self._timeout_s = config.timeout_s

    def send(self, body: bytes, wait: Callable[[float], bool]) -> str | None:
        """Runs it with a limit on its time; then it is killed with all it started."""
        program = os.path.basename(self._words[0])
        try:
            child = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return f"{program} cannot be run: {error.strerror}"
        try:
            stopped = self._feed(child, body, wait)
        finally:
            # Also what it left running: the notice has had its time.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if stopped is not None:
            return f"{program} was stopped {stopped}"
        if child.returncode < 0:
            return f"{program} was ended by signal {-child.returncode}"
        return None if child.returncode == 0 else f"{program} exited with {child.returncode}"

    def _feed(self, child: "subprocess.Popen[bytes]", body: bytes, wait: Callable[[float], bool]) -> str | None:
        """Waits for its own end; when it has to be stopped before, says so."""
        until = time.monotonic() + self._timeout_s
        rest: bytes | None = body
        while True:
            try:
                child.communicate(rest, timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                rest = None
            else:
                return None
            if time.monotonic() >= until:
                return f"after {self._timeout_s:g} s"
            if wait(0):
                return "at the end"
