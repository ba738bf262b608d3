"""Launching SGLang: the command line, and a stand-in for its server that shows how it is started and ended."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collector.errors import UserError
from trainer.engine.sglang_launch import launch_sglang, sglang_command
from trainer.engine_config import EngineConfig

STAND_IN = """
import http.server, json, os, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ready" else 404)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", port), Ready)
with open(os.environ["STAND_IN_LOG"], "w") as log:
    keep = ("SGLANG_USE_CPU_ENGINE", "OMP_NUM_THREADS")
    json.dump({"words": sys.argv[1:], "pid": os.getpid(), "env": {k: os.environ.get(k) for k in keep}}, log)
server.serve_forever()
"""


def test_the_command_names_what_this_project_needs() -> None:
    command = sglang_command(EngineConfig(served_name="m"), model="/models/m", python="py", port=5)
    assert command[:3] == ["py", "-m", "sglang.launch_server"]
    joined = " ".join(command)
    for words in (
        "--incremental-streaming-output",
        "--enable-lora",
        "--lora-strict-loading",
        "--enable-metrics",
        "--model-path /models/m --served-model-name m --host 127.0.0.1 --port 5",
        "--max-loaded-loras 16 --max-loras-per-batch 8",
    ):
        assert words in joined
    for absent in (
        "--device",
        "--dtype",
        "--context-length",
        "--max-running-requests",
        "--chunked-prefill-size",
        "--max-total-tokens",
        "--lora-paths",
        "torch_native",
    ):
        assert absent not in joined


def test_limits_adapters_and_a_cpu_are_handed_on() -> None:
    settings = EngineConfig(
        max_context=100,
        max_running=4,
        dtype="bfloat16",
        prefill_chunk=512,
        kv_tokens=200,
        device="cpu",
        max_adapters=2,
        adapters={"a@1": "/a", "b@2": "/b"},
    )
    joined = " ".join(sglang_command(settings, model="m", python="py", port=5))
    for words in (
        "--context-length 100",
        "--max-running-requests 4",
        "--chunked-prefill-size 512",
        "--dtype bfloat16",
        "--max-total-tokens 200",
        "--device cpu",
        "--attention-backend torch_native --lora-backend torch_native --sleep-on-idle",
        "--max-loaded-loras 2 --max-loras-per-batch 2",
    ):
        assert words in joined
    assert joined.endswith("--lora-paths a@1=/a b@2=/b")


def test_an_interpreter_without_sglang_is_one_line() -> None:
    with pytest.raises(UserError, match=r"has no sglang; install the sglang extra there") as raised:
        launch_sglang(EngineConfig(model="m"), python=sys.executable, ready_file=None, say=print)
    assert "\n" not in str(raised.value)


def test_a_missing_interpreter_is_one_line() -> None:
    with pytest.raises(UserError, match="--sglang-python /nowhere/python: cannot be run"):
        launch_sglang(EngineConfig(model="m"), python="/nowhere/python", ready_file=None, say=print)


def test_the_server_is_started_announced_and_ended(tmp_path: Path) -> None:
    package = tmp_path / "site" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text(STAND_IN)
    ready, log = tmp_path / "ready.json", tmp_path / "log.json"
    env = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}", "STAND_IN_LOG": str(log)}
    words = ["engine", "--sglang", "--model", "some/model", "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(
        [sys.executable, "-m", "console", *words, "--ready-file", str(ready)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(400):
            if ready.exists():
                break
            time.sleep(0.05)
        url = json.loads(ready.read_text())["url"]
        started = json.loads(log.read_text())
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert out == f"serving some/model at {url} (SGLang, process {started['pid']})\n"
    assert err.startswith("loading with SGLang: ")
    assert started["words"][started["words"].index("--model-path") + 1] == "some/model"
    assert started["env"] == {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}
    with pytest.raises(ProcessLookupError):
        os.kill(started["pid"], 0)


def test_a_server_that_fails_hands_on_its_exit_code(tmp_path: Path) -> None:
    package = tmp_path / "sglang"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text("raise SystemExit(7)")
    process = subprocess.run(
        [sys.executable, "-m", "console", "engine", "--sglang", "--model", "m", "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (process.returncode, process.stdout) == (7, "")
