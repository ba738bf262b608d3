"""Verifiers that are Python functions: each called in a process of its own, with a time limit for each reply."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from trainer.evaluation import function_process

_IMPORT_LIMIT_S = 60.0


class Judged(NamedTuple):
    """A task and a reply to it, as the function gets them."""

    task: object
    reply: object


class Fault(NamedTuple):
    """Why a verifier gave no verdict: nothing is known of the reply."""

    text: str


def call_function(function: str, judged: Sequence[Judged], *, folder: Path, time_limit_s: float) -> list[float | Fault]:
    """The verdicts of `module:function`, a `Fault` for each reply on which it fails. `folder` is searched first."""
    verdicts: list[float | Fault] = []
    order = {
        "path": [str(folder.absolute()), *(path or str(Path.cwd()) for path in sys.path)],
        "function": function,
        "time_limit_s": time_limit_s,
        "import_limit_s": _IMPORT_LIMIT_S,
    }
    while len(verdicts) < len(judged):
        found, fault = _call(order, judged[len(verdicts) :])
        if found is None:
            return [Fault(f"{function}: {fault}")] * len(judged)
        verdicts += [_checked(function, verdict) for verdict in found]
        if len(verdicts) < len(judged):
            verdicts.append(Fault(f"{function}: {fault}"))
    return verdicts


def _call(order: Mapping[str, object], judged: Sequence[Judged]) -> tuple[list[float] | None, str]:
    """The verdicts up to the reply on which the process ended, and why it did; None where it never began."""
    lines = [msgspec.json.encode(each) for each in (order, *({"task": j.task, "reply": j.reply} for j in judged))]
    # -P: the folder of the process's own file is not searched.
    done = subprocess.run(
        [sys.executable, "-P", function_process.__file__],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        check=False,
    )
    began, *verdicts = done.stdout.splitlines() or [b""]
    said = done.stderr.decode(errors="replace").strip().splitlines()
    reason = said[-1] if said else f"its process ended with status {done.returncode}"
    if done.returncode == -signal.SIGALRM:
        limit = order["import_limit_s" if not began else "time_limit_s"]
        reason = f"ran longer than {limit:g} s"
    return ([float(verdict) for verdict in verdicts] if began else None), reason


def _checked(function: str, verdict: float) -> float | Fault:
    if 0 <= verdict <= 1:
        return verdict
    return Fault(f"{function}: returned {verdict}, expected a bool or a score from 0 to 1")
