"""An engine as a child process of the tests: started on loopback, waited for, ended with all its children."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

_POLL_S = 0.1
_TERMINATE_S = 5.0


@contextmanager
def engine_process(
    command: list[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    url: str | Callable[[], str | None],
    start_timeout_s: float,
    ready_path: str = "/ready",
) -> Generator[str, None, None]:
    """Runs `command` in a process group of its own and yields its URL once `ready_path` says 200.

    `url` may be a function that says None until the engine has written down where it listens.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield _wait_until_ready(
            process, (lambda: url) if isinstance(url, str) else url, ready_path, log, start_timeout_s
        )
    finally:
        _end_group(process)


def free_port() -> int:
    """A loopback port that nobody listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_ready(
    process: subprocess.Popen[bytes], url: Callable[[], str | None], ready_path: str, log: Path, start_timeout_s: float
) -> str:
    deadline = time.monotonic() + start_timeout_s
    while process.poll() is None and time.monotonic() < deadline:
        address = url()
        if address is not None and _answers(address + ready_path):
            return address
        time.sleep(_POLL_S)
    ended = (
        f"ended with {process.returncode}" if process.poll() is not None else f"not ready in {start_timeout_s:.0f} s"
    )
    tail = "\n".join(line[:400] for line in log.read_text(errors="replace").splitlines()[-30:])
    raise RuntimeError(f"engine {ended}: {' '.join(map(str, process.args))}\n{log}:\n{tail}")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for end, patience_s in ((signal.SIGTERM, _TERMINATE_S), (signal.SIGKILL, _TERMINATE_S)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, end)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if process.poll() is not None and not _group_lives(process.pid):
                return
            time.sleep(_POLL_S)
    raise RuntimeError(f"process group {process.pid} outlived SIGKILL")


def _group_lives(group: int) -> bool:
    for process in psutil.process_iter(["status"]):
        # A zombie whose parent is gone may stay for ever where process 1 does not wait for orphans.
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                return True
    return False
