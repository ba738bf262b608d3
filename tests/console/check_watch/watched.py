"""A store with turns of some finish reasons, and a watch in a process of its own."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from collector.records import Turn, VersionSpan
from collector.store.writer import Writer

ROOT = Path(__file__).parents[3]
ONLY = ["--select", "truncation"]


def turn(name: str, why: str | None, *, age_s: float = 0) -> Turn:
    """A session of one turn that ended so long ago."""
    ended = datetime.now(UTC) - timedelta(seconds=age_s)
    return Turn(
        turn_id=f"{name}-1",
        session_id=name,
        turn=1,
        tenant="t",
        api="chat",
        started_at=ended,
        finished_at=ended,
        prompt_ids=[1, 2],
        completion_ids=[3],
        sampled_logprobs=[-0.5],
        weight_versions=[VersionSpan(version=1, start=0, end=1)],
        finish_reason=why,  # type: ignore[arg-type]
    )


def fill(store: Path, *finishes: str | None, name: str = "s", age_s: float = 0) -> None:
    """A store with a session for each finish reason."""
    with Writer(store, "collector") as writer:
        for number, why in enumerate(finishes):
            writer.append(turn(f"{name}{number}", why, age_s=age_s)).result(10)


class Watch:
    """`roundhouse check STORE --watch` as a child."""

    def __init__(self, store: Path, *words: str, start: Sequence[str] = ("-m", "console")) -> None:
        command = [sys.executable, *start, "check", str(store), "--watch", *ONLY, "--interval", "0.1", *words]
        self.child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=store.parent,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert self.child.stdout is not None
        self._out = self.child.stdout
        self._rest = b""

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.communicate(timeout=60)

    def line(self, holds: Callable[[str], bool] = lambda _: True, most_s: float = 60) -> str:
        """The next line of stdout of which something holds."""
        end = time.monotonic() + most_s
        while True:
            while b"\n" not in self._rest:
                left = end - time.monotonic()
                assert left > 0, "no such line came"
                if select.select([self._out], [], [], left)[0]:
                    piece = os.read(self._out.fileno(), 1 << 20)
                    assert piece, f"it ended: {self.child.communicate()}"
                    self._rest += piece
            line, _, self._rest = self._rest.partition(b"\n")
            if holds(line.decode()):
                return line.decode()

    def evaluation(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next evaluation, of `--format json`, of which something holds."""
        return json.loads(self.line(lambda line: holds(json.loads(line))))

    def stop(self, by: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Its exit code and what it said on stderr."""
        self.child.send_signal(by)
        _, complaints = self.child.communicate(timeout=60)
        return self.child.returncode, complaints.decode()


def alert(evaluation: dict[str, Any], rule: str = "truncation") -> dict[str, Any]:
    """One alert of an evaluation."""
    return next(each for each in evaluation["alerts"] if each["rule"] == rule)
