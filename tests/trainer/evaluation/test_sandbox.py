"""The sandbox: what it is started with, what it refuses, and, where bubblewrap works, that it really isolates."""

import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from collector.errors import UserError
from trainer.evaluation.sandbox import Finished, Sandbox, open_sandbox
from trainer.evaluation_config import SandboxConfig

QUICK = SandboxConfig(time_limit_s=2.0, tmp_mb=4, file_mb=1, memory_mb=256, processes=8)


def opened() -> Sandbox:
    """A real sandbox with small limits; the test is skipped where there is none."""
    try:
        return open_sandbox(QUICK)
    except UserError as error:
        pytest.skip(f"no sandbox here: {error}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everyone may read, as a suite's must be for root."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def stand_in(folder: Path, body: str) -> str:
    """A program in bubblewrap's place that leaves the rest to `body`; $2 is where it says how the command ended."""
    path = folder / "bwrap"
    find = "while test $1 != --json-status-fd; do shift; done"
    path.write_text(f"#!/bin/bash\n{find}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_without_bubblewrap_nothing_runs_and_one_line_says_what_to_install() -> None:
    with pytest.raises(UserError, match=r"there is no nowhere-to-be-found; install bubblewrap 0\.8 or newer"):
        open_sandbox(SandboxConfig(program="nowhere-to-be-found"))


def test_one_that_cannot_make_namespaces_is_refused_with_its_own_words(folder: Path) -> None:
    program = stand_in(folder, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    with pytest.raises(UserError, match=r"did not start one: bwrap: No permissions to create new namespace; install"):
        open_sandbox(SandboxConfig(program=program))


def test_one_that_does_not_isolate_is_refused(folder: Path) -> None:
    ended = """echo '{ "exit-code": 0 }' >&$2"""
    program = stand_in(folder, f"printf 'eth0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\\n'; {ended}")
    with pytest.raises(UserError, match="leaves network devices eth0, expected lo only"):
        open_sandbox(SandboxConfig(program=program))
    lo = "lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
    program = stand_in(folder, f"printf '{lo}\\nCapEff: 0000000000000400\\nCapBnd: 0\\nNoNewPrivs: 1\\n'; {ended}")
    with pytest.raises(UserError, match="leaves capabilities, expected none"):
        open_sandbox(SandboxConfig(program=program))
    program = stand_in(folder, f"printf '{lo}\\nCapEff: 0\\nCapBnd: 0\\nNoNewPrivs: 0\\n'; {ended}")
    with pytest.raises(UserError, match="leaves a way to new privileges, expected none"):
        open_sandbox(SandboxConfig(program=program))


def test_a_path_to_show_must_exist() -> None:
    config = SandboxConfig(program="sh", read_only=("/nowhere/at/all",))
    with pytest.raises(UserError, match="read_only holds '/nowhere/at/all', expected an absolute path that exists"):
        open_sandbox(config)


def test_the_command_line_hides_everything_and_sets_every_limit(folder: Path) -> None:
    config = SandboxConfig(
        time_limit_s=2.5, memory_mb=100, processes=3, file_mb=2, tmp_mb=4, read_only=("/opt/python",)
    )
    found = Sandbox(config, "/usr/bin/bwrap").arguments(["check", "it"], task=folder, suite=folder / "suite", status=7)
    isolation, _, rest = " ".join(found).partition(" -- ")
    for option in ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop ALL", "--die-with-parent"):
        assert f" {option} " in isolation
    for option in ("--new-session", "--clearenv", "--size 4194304 --tmpfs /tmp", "--ro-bind /opt/python /opt/python"):
        assert f" {option} " in isolation
    assert f"--ro-bind {folder}/suite /suite" in isolation
    assert "--bind" not in found
    assert "--share-net" not in found
    assert rest == ("prlimit --as=104857600 --nproc=3 --fsize=2097152 --cpu=4 --nofile=256 --core=0 -- check it")


def test_a_command_past_its_time_is_killed(folder: Path) -> None:
    config = SandboxConfig(program=stand_in(folder, "echo begun; exec sleep 100"), time_limit_s=0.5)
    assert Sandbox(config, config.program).run(["any"]) == Finished("failed", "begun\n", timed_out=True)


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "passed"), (1, "failed"), (137, "failed"), (126, "never_ran"), (127, "never_ran")]
)
def test_statuses_that_say_a_program_could_not_run_are_no_verdict(folder: Path, code: int, outcome: str) -> None:
    program = stand_in(folder, f"""echo '{{ "exit-code": {code} }}' >&$2""")
    assert Sandbox(SandboxConfig(), program).run(["any"]).outcome == outcome


def test_a_sandbox_that_says_nothing_of_the_command_is_no_verdict(folder: Path) -> None:
    assert Sandbox(SandboxConfig(), stand_in(folder, "exit 0")).run(["any"]).outcome == "never_ran"


def test_a_command_reads_the_reply_and_the_task_and_gives_its_status(folder: Path) -> None:
    (folder / "expected").write_text("42\n")
    script = 'read word; test "$word" = "$(cat /suite/expected)" && cat /task/note'
    found = opened().run(["sh", "-c", script], stdin=b"42\n", files={"note": b"noted"}, suite=folder)
    assert found == Finished("passed", "noted")
    assert opened().run(["sh", "-c", script], stdin=b"41\n", suite=folder).outcome == "failed"
    assert opened().run(["no-such-program"]).outcome == "never_ran"


def test_nothing_outside_can_be_written_or_seen(folder: Path) -> None:
    (folder / "secret").write_text("secret")
    sandbox = opened()
    for script in (
        f"cat {folder}/secret",
        f"cat {Path.home()}/.bashrc",
        "cat /etc/passwd",
        "echo x > /usr/x",
        "echo x > /x",
        "echo x > /task/x",
        "echo x > /suite/x",
        "unshare -Ur true",
        "mount -o remount,rw /usr",
        'test -n "$USER"',
        "kill -0 3000",
    ):
        assert sandbox.run(["sh", "-c", script], suite=folder).outcome == "failed", script
    assert sandbox.run(["sh", "-c", "echo x > /tmp/x && cat /tmp/x; ls /proc | grep -c '^[0-9]'"]).outcome == "passed"
    assert not (folder / "x").exists()


def test_there_is_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or pytest.skip("no python3 under /usr")
        assert opened().run([python, "-c", "print('runs')"]).output == "runs\n"
        found = opened().run([python, "-c", connect])
    assert found.outcome == "failed"
    assert "Connection refused" in found.output or "Network is unreachable" in found.output


def test_time_processes_memory_files_and_output_are_bounded() -> None:
    sandbox = opened()
    marker = f"{time.time_ns()}"
    assert sandbox.run(["sh", "-c", f"(sleep 1000.{marker} &) ; setsid sleep 1000.{marker}"]).timed_out
    deadline = time.monotonic() + 10
    while left := [p for p in psutil.process_iter(["cmdline"]) if any(marker in a for a in p.info["cmdline"] or ())]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    forks = sandbox.run(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1 & done; wait"])
    assert "fork" in forks.output.lower()
    assert sandbox.run(["sh", "-c", "head -c 300000000 /dev/zero | tail -c 299999999 > /dev/null"]).outcome == "failed"
    assert sandbox.run(["sh", "-c", "head -c 2000000 /dev/zero > /tmp/big"]).outcome == "failed"
    many = "for i in 1 2 3 4 5 6; do head -c 1000000 /dev/zero > /tmp/$i || exit 1; done"
    assert sandbox.run(["sh", "-c", many]).outcome == "failed"
    loud = sandbox.run(["sh", "-c", "exec yes"])
    assert loud.outcome == "failed"
    assert len(loud.output) <= 2_000
