"""`roundhouse engine` as a process: the ready file, the lines it prints, how it ends."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from trainer.tiny_model import write_tiny_adapter


def start(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "console", "engine", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(file: Path, process: "subprocess.Popen[str]") -> dict[str, Any]:
    for _ in range(600):
        if file.exists():
            return json.loads(file.read_text())
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("the engine did not become ready within 30 s")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_the_command_serves_until_it_is_told_to_stop(llama: Path, tmp_path: Path, number: signal.Signals) -> None:
    adapter = write_tiny_adapter(tmp_path / "adapter", llama, rank=2)
    ready = tmp_path / "ready.json"
    words = ["--model", str(llama), "--port", "0", "--ready-file", str(ready), "--adapter", f"a@1={adapter}"]
    process = start(*words, "--served-name", "tiny")
    try:
        told = wait_for(ready, process)
        assert told["pid"] == process.pid
        body = json.dumps({"input_ids": [1, 2], "lora_path": "a@1", "sampling_params": {"max_new_tokens": 3}})
        request = urllib.request.Request(told["url"] + "/generate", body.encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert 1 <= len(json.load(answer)["output_ids"]) <= 3
        sampling = {"max_new_tokens": 2000, "ignore_eos": True}
        body = json.dumps({"input_ids": [1, 2], "sampling_params": sampling, "stream": True})
        request = urllib.request.Request(told["url"] + "/generate", body.encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as stream:
            stream.readline()
            process.send_signal(number)
            # A second one neither hurries it nor makes it say anything.
            process.send_signal(signal.SIGINT)
            *_, last, end = [line for line in stream if line != b"\n"]
        assert json.loads(last.removeprefix(b"data: "))["meta_info"]["finish_reason"]["type"] == "abort"
        assert end == b"data: [DONE]\n"
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert out == f"serving tiny at {told['url']} (context 2048, room for 2097152 tokens)\n"
    assert err == f"loading {llama} ...\n"


def test_a_port_in_use_is_one_line(llama: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = start("--model", str(llama), "--port", str(port))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith(f"roundhouse engine: cannot listen on 127.0.0.1:{port}: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "/nowhere"], "/nowhere: no config.json found, expected the folder of a Hugging Face model"),
        (["--adapter", "x"], "--adapter is 'x', expected NAME=FOLDER with a name of its own"),
        (["--threads", "0"], "--threads is 0, expected a whole number >= 1"),
        (["--port", "70000"], "--port is 70000, expected a whole number <= 65535"),
        (["--sglang-python", "x"], "--sglang-python is given without --sglang; add --sglang or leave it out"),
    ],
)
def test_what_cannot_be_served_is_one_line(words: list[str], says: str) -> None:
    process = start("--port", "0", *words)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.splitlines()[-1] == f"roundhouse engine: {says}"
    assert "Traceback" not in err
