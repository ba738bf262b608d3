"""Verifiers that are Python functions: each called in a process of its own, with a time limit for each reply."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from trainer.evaluation import function_process

_IMPORT_LIMIT_S = 60.0
_LOOK_S = 0.2
_SLACK_S = 2.0
"""After its own alarm should have ended it."""


class Judged(NamedTuple):
    """A task and a reply to it, as the function gets them."""

    task: object
    reply: object


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    path: list[str]
    function: str
    time_limit_s: float
    import_limit_s: float


class Fault(NamedTuple):
    """Why a verifier gave no verdict: nothing is known of the reply."""

    text: str


def call_function(function: str, judged: Sequence[Judged], *, folder: Path, time_limit_s: float) -> list[float | Fault]:
    """The verdicts of `module:function`, a `Fault` for each reply on which it fails. `folder` is searched first."""
    verdicts: list[float | Fault] = []
    path = [str(folder.absolute()), *(path or str(Path.cwd()) for path in sys.path)]
    order = _Order(path=path, function=function, time_limit_s=time_limit_s, import_limit_s=_IMPORT_LIMIT_S)
    while len(verdicts) < len(judged):
        found, fault = _call(order, judged[len(verdicts) :])
        if found is None:
            return [Fault(f"{function}: {fault}")] * len(judged)
        verdicts += [_checked(function, verdict) for verdict in found]
        if len(verdicts) < len(judged):
            verdicts.append(Fault(f"{function}: {fault}"))
    return verdicts


def _call(order: _Order, judged: Sequence[Judged]) -> tuple[list[float] | None, str]:
    """The verdicts up to the reply on which the process ended, and why it did; None where it never began."""
    lines = [msgspec.json.encode(each) for each in (order, *({"task": j.task, "reply": j.reply} for j in judged))]
    # Files, not pipes: a process that the function left running would keep a pipe open for ever.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as errors:
        given.write(b"\n".join(lines) + b"\n")
        given.seek(0)
        # -P: the folder of the process's own file is not searched.
        process = subprocess.Popen(
            [sys.executable, "-P", function_process.__file__],
            stdin=given,
            stdout=told,
            stderr=errors,
            start_new_session=True,
        )
        in_time = _wait(process, told, order)
        began, *verdicts = _read(told).splitlines() or [b""]
        said = _read(errors).decode(errors="replace").strip().splitlines()
    reason = said[-1] if said else f"its process ended with status {process.returncode}"
    if not in_time or process.returncode == -signal.SIGALRM:
        limit = order.time_limit_s if began else order.import_limit_s
        reason = f"ran longer than {limit:g} s"
    if not began:
        return None, reason
    return [float(verdict) for verdict in verdicts], reason


def _wait(process: "subprocess.Popen[bytes]", told: BinaryIO, order: _Order) -> bool:
    """Whether it ended by itself. A function may set an alarm of its own, so that ours never comes."""
    seen, since = 0, time.monotonic()
    try:
        while True:
            try:
                process.wait(_LOOK_S)
                return True
            except subprocess.TimeoutExpired:
                size = os.fstat(told.fileno()).st_size
            limit = order.time_limit_s if seen else order.import_limit_s
            if size > seen:
                seen, since = size, time.monotonic()
            elif time.monotonic() - since > limit + _SLACK_S:
                return False
    finally:
        # What it started goes with it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


def _checked(function: str, verdict: float) -> float | Fault:
    if 0 <= verdict <= 1:
        return verdict
    return Fault(f"{function}: returned {verdict}, expected a bool or a score from 0 to 1")
