"""One cycle of the demo: `roundhouse train --once` in a process of its own, and what it says came of it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from collector.errors import UserError
from console.demo.children import POLL_S, PROJECT, STOP_LIMIT_S

LEFT_ALONE = (0, 1)
"""Exit codes of a cycle that ran to its end: 1 says that a version was refused or a stage failed."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a cycle ended for one version; what of the trainer's JSON the demo reads."""

    adapter: str
    ending: str
    reason: str
    version: int | None = None
    parent: int | None = None
    recovered: bool = False
    """Whether an earlier cycle had left the version behind."""


class CycleResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a cycle ended."""

    cycle: int
    adapters: tuple[Ending, ...]


def run_cycle(arguments: list[str], folder: Path, *, number: int, limit_s: float) -> CycleResult:
    """Runs `roundhouse train --once --json` with further arguments; its process never outlives the call."""
    out, log = folder / f"train-{number}.json", folder / f"train-{number}.log"
    words = ["train", "--once", "--json", *arguments, "--stop-with-stdin"]
    with open(out, "wb") as to_out, open(log, "wb") as to_log:
        # A session of its own, as the other children have: Ctrl-C reaches the demo alone.
        process = subprocess.Popen(
            [sys.executable, "-m", "console", *words],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=to_out,
            stderr=to_log,
            start_new_session=True,
        )
    try:
        _wait(process, limit_s)
    finally:
        _end(process)
    return _read(out, log, process.returncode)


def _wait(process: "subprocess.Popen[bytes]", limit_s: float) -> None:
    # Not wait(): a KeyboardInterrupt is to be heard at once, and the process then ended in order.
    end = time.monotonic() + limit_s
    while process.poll() is None:
        if time.monotonic() > end:
            raise UserError(f"a cycle was not over after {limit_s:.0f} s; give more time with --minutes")
        time.sleep(POLL_S)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Tells a process that still runs to stop, and waits for it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _read(out: Path, log: Path, code: int) -> CycleResult:
    said = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    last = said[-1] if said else "it said nothing"
    lines = out.read_bytes().splitlines()
    if code not in LEFT_ALONE or not lines:
        raise UserError(f"the trainer ended with exit code {code}: {last.partition('roundhouse train: ')[2] or last}")
    return msgspec.json.decode(lines[-1], type=CycleResult)


def arguments(*, store: Path, engine: str, model: Path, config: Path) -> list[str]:
    """What `run_cycle` gives the trainer."""
    return ["--store", str(store), "--engine", engine, "--model", str(model), "--config", os.fspath(config)]
