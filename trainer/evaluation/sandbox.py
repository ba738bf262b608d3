"""The one place where code that a model wrote may run: bubblewrap without a network, with limits, or not at all.

Inside are /usr, the paths named, the task's files at /task, the suite's own folder at /suite, a fresh /tmp, and nothing
else: no network but an empty loopback, no other processes, no environment, no user but nobody, no capability and no
way to a new namespace. Started by root it runs as nobody (uid 65534), who must be able to read what is shown.

Source of the options: the manual page bwrap(1) of bubblewrap 0.8.0. A sandbox of `unshare` alone is not offered: who
may make namespaces there may also mount anew what was hidden.
"""

import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import msgspec

from collector.errors import UserError
from trainer.evaluation_config import SandboxConfig

_MB = 1024 * 1024
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
_SHOWN_CHARS = 2_000
_NEVER_RAN = (126, 127)
_NOBODY = 65534
_INSTALL = "install bubblewrap 0.8 or newer (apt install bubblewrap, dnf install bubblewrap) and allow user namespaces"


class _Status(msgspec.Struct, frozen=True, rename="kebab"):
    """A line of what bubblewrap says of the command."""

    exit_code: int | None = None


class Finished(NamedTuple):
    """How a command ended."""

    outcome: Literal["passed", "failed", "never_ran"]
    """`failed` when it ended with another status than 0, by a signal, or at its time limit; `never_ran` when the
    sandbox or the command could not be started (126 and 127 are a shell's words for that)."""
    output: str
    """The end of what it wrote, standard error included: text of a model, to be escaped where it is shown."""
    timed_out: bool = False
    """Whether it ran past its time."""


class Sandbox:
    """Runs commands in bubblewrap. Only `open_sandbox` makes one, after it has shown that it isolates."""

    def __init__(self, config: SandboxConfig, program: str) -> None:
        self._config = config
        self._program = program

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        files: Mapping[str, bytes] | None = None,
        suite: Path | None = None,
    ) -> Finished:
        """Runs a command to its end or its limit. `files` are readable in /task, the suite's own folder in /suite."""
        with tempfile.TemporaryDirectory(prefix="roundhouse-sandbox-") as made, tempfile.TemporaryFile() as output:
            task = Path(made)
            task.chmod(0o755)
            for name, content in (files or {}).items():
                (task / name).write_bytes(content)
            with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as status:
                given.write(stdin)
                given.seek(0)
                started = self.arguments(command, task=task, suite=suite, status=status.fileno())
                in_time = self._wait(started, given, output, status)
                code = _exit_code(status)
            size = output.seek(0, 2)
            output.seek(max(0, size - 4 * _SHOWN_CHARS))
            shown = output.read().decode(errors="replace")[-_SHOWN_CHARS:]
            if not in_time:
                return Finished("failed", shown, timed_out=True)
            ran = code is not None and code not in _NEVER_RAN
            return Finished("never_ran" if not ran else "failed" if code else "passed", shown)

    def arguments(self, command: Sequence[str], *, task: Path, suite: Path | None, status: int) -> list[str]:
        """The whole command line."""
        shown = ["--ro-bind", "/usr", "/usr"]
        for path in _SYSTEM:
            shown += ["--ro-bind-try", path, path]
        for path in self._config.read_only:
            shown += ["--ro-bind", path, path]
        if suite is not None:
            shown += ["--ro-bind", str(suite.absolute()), "/suite"]
        return [
            self._program,
            *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", f"{_NOBODY}", "--gid", f"{_NOBODY}"),
            *("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "sandbox"),
            *("--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", "/tmp"),
            *("--json-status-fd", str(status)),
            *shown,
            *("--proc", "/proc", "--dev", "/dev"),
            *("--size", str(self._config.tmp_mb * _MB), "--tmpfs", "/tmp"),
            *("--ro-bind", str(task), "/task", "--remount-ro", "/", "--chdir", "/tmp", "--"),
            *self._limits(),
            *command,
        ]

    def _limits(self) -> list[str]:
        """Set inside, where the count of processes is the sandbox's own; without capabilities nothing raises them."""
        config = self._config
        return [
            "prlimit",
            f"--as={config.memory_mb * _MB}",
            f"--nproc={config.processes}",
            f"--fsize={config.file_mb * _MB}",
            f"--cpu={math.ceil(config.time_limit_s) + 1}",
            *("--nofile=256", "--core=0", "--"),
        ]

    def _wait(self, arguments: list[str], given: BinaryIO, output: BinaryIO, status: BinaryIO) -> bool:
        """Whether it ended in time; nothing of it is left either way."""
        # The limit on processes does not hold for root, whatever its name inside.
        other = {"user": _NOBODY, "group": _NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
        try:
            process = subprocess.Popen(
                arguments,
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                pass_fds=(status.fileno(),),
                **other,  # pyright: ignore[reportArgumentType, reportCallIssue]
            )
        except OSError as error:
            raise UserError(f"{self._program} cannot be run: {error.strerror}; {_INSTALL}") from error
        try:
            process.wait(self._config.time_limit_s)
        except subprocess.TimeoutExpired:
            return False
        finally:
            # The rest of the sandbox dies with its first process.
            process.kill()
            process.wait()
        return True


def _exit_code(status: BinaryIO) -> int | None:
    """What bubblewrap says the command ended with; None where it says that of none."""
    status.seek(0)
    codes = (msgspec.json.decode(line, type=_Status).exit_code for line in status.read().splitlines() if line.strip())
    return next((code for code in codes if code is not None), None)


def open_sandbox(config: SandboxConfig) -> Sandbox:
    """A sandbox that has been tried; UserError with what to install where there is none."""
    program = shutil.which(config.program)
    if program is None:
        raise UserError(f"commands run only in a sandbox, and there is no {config.program}; {_INSTALL}")
    for path in config.read_only:
        if not Path(path).is_absolute() or not Path(path).exists():
            raise UserError(f"sandbox.read_only holds {path!r}, expected an absolute path that exists; correct it")
    sandbox = Sandbox(config, program)
    found = sandbox.run(["cat", "/proc/net/dev", "/proc/self/status"])
    if found.outcome != "passed":
        ended = "ran past its time" if found.timed_out else "did not start one"
        reason = " ".join(found.output.split()) or "it says nothing"
        raise UserError(f"commands run only in a sandbox, and {program} {ended}: {reason[-300:]}; {_INSTALL}")
    if leak := _leak(found.output):
        raise UserError(f"commands run only in a sandbox, and {program} leaves {leak}; {_INSTALL}")
    return sandbox


def _leak(shown: str) -> str | None:
    """What the probe could reach that it should not."""
    lines = [line.split() for line in shown.splitlines() if line.strip()]
    devices = [words[0].rstrip(":") for words in lines if words[0].endswith(":") and len(words) == 17]
    if devices != ["lo"]:
        return f"network devices {', '.join(devices) or 'unknown'}, expected lo only"
    status = {words[0]: words[1] for words in lines if len(words) > 1}
    if int(status.get("CapEff:", "1"), 16) or int(status.get("CapBnd:", "1"), 16):
        return "capabilities, expected none"
    if status.get("NoNewPrivs:") != "1":
        return "a way to new privileges, expected none"
    return None
