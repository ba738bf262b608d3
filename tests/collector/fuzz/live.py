"""A fuzzed collector as a process, and requests sent to it side by side."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.collector.fuzz.bodies import RECEIPT, encoded
from tests.collector.fuzz.ledger import Ledger
from tests.collector.fuzz.raw_http import Answer, exchange, request_bytes

ROOT = Path(__file__).parents[3]
SECRETS = [b"rh-not-to-be-kept-1", b"rh-not-to-be-kept-2", b"not-to-be-kept-3", b"not-to-be-kept-4"]
SECRET_HEADERS = [
    ("authorization", "Bearer rh-not-to-be-kept-1"),
    ("x-api-key", "rh-not-to-be-kept-2"),
    ("cookie", "session=not-to-be-kept-3"),
    ("x-of-nobody", "not-to-be-kept-4"),
]
"""On every request: no part of them may reach a record or a log."""


class Asked(NamedTuple):
    """One request."""

    path: str
    headers: list[tuple[str, str]]
    body: Any
    framing: str = "plain"


class Live:
    """A collector that listens, and the ledger of what it answered."""

    def __init__(self, url: str, store: Path, log: Path, process: subprocess.Popen[str]) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self.address = (parts.hostname, parts.port)
        self.url, self.store, self.log = url, store, log
        self.ledger = Ledger()
        self._process = process
        self._pool = ThreadPoolExecutor(4)
        self._source = random.Random(1)

    def ask(self, requests: Sequence[Asked]) -> None:
        """Sends requests side by side and notes the answers."""
        for _ in self._pool.map(self._ask, requests):
            pass
        assert self._process.poll() is None, "the collector ended"

    def _ask(self, asked: Asked) -> None:
        body = asked.body if isinstance(asked.body, bytes) else encoded(asked.body)
        if RECEIPT.encode() in body and self.ledger.receipts:
            body = body.replace(RECEIPT.encode(), self._source.choice(self.ledger.receipts).encode())
        data = request_bytes(asked.framing, asked.path, [*SECRET_HEADERS, *asked.headers], body)
        self.ledger.note(asked.path, exchange(self.address, data, leave=asked.framing == "leave"))

    def note(self, path: str, answer: Any) -> None:
        """Takes in an answer that another client got."""
        headers = {name.lower(): value[0] for name, value in answer.headers.items()}
        self.ledger.note(path, Answer(answer.status_code, headers, answer.content))

    def end(self) -> None:
        """Stops the collector, and checks what its store holds of what it answered."""
        self._pool.shutdown()
        memory_mib = _peak_mib(self._process.pid)
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        log = self.log.read_bytes()
        assert b"Traceback" not in log, log[log.index(b"Traceback") - 500 :][:4000].decode()
        self.ledger.check(self.store, SECRETS, log)
        print(f"{self.ledger.said()}; the collector took {memory_mib} MiB")


@contextmanager
def live_collector(folder: Path) -> Iterator[Live]:
    """A collector for as long as the block runs; its store is checked at the end."""
    store, log = folder / "store", folder / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.collector.fuzz.fuzzed_collector", str(store)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, log.read_text()
        live = Live(url, store, log, process)
        yield live
        live.end()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def _peak_mib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)
