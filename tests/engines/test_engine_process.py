"""An engine that cannot start says why, and none leaves a process behind."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.engines.engine_process import engine_process, free_port

SERVER = """
import http.server, os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(f"{os.getpid()} {child.pid}")
http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]), bind="127.0.0.1")
"""


def test_the_engine_and_its_children_end_with_the_context(tmp_path: Path) -> None:
    (tmp_path / "ready").touch()
    port, pids = free_port(), tmp_path / "pids"
    command = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}){SERVER}", str(port), str(pids)]
    url = f"http://127.0.0.1:{port}"
    log = tmp_path / "log"
    with engine_process(command, environment={}, log=log, url=url, start_timeout_s=30) as address:
        assert address == url
        processes = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
        assert all(os.getpgid(process.pid) == processes[0].pid for process in processes)
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_an_engine_that_ends_at_once_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such model')"]
    with (
        pytest.raises(RuntimeError, match=r"(?s)engine ended with 1: .*no such model"),
        engine_process(command, environment={}, log=tmp_path / "log", url="http://127.0.0.1:9", start_timeout_s=30),
    ):
        pass


def test_an_engine_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; print('loading', flush=True); time.sleep(600)"]
    with (
        pytest.raises(RuntimeError, match=r"(?s)engine not ready in 1 s: .*loading"),
        engine_process(command, environment={}, log=tmp_path / "log", url=lambda: None, start_timeout_s=1),
    ):
        pass
