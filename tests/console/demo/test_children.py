"""Child processes: found, waited for, and gone afterwards."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from collector.errors import UserError
from console.demo.children import Child, stop_all
from trainer.tiny_model import write_tiny_model


def test_the_line_of_a_child_that_refuses_is_passed_on(tmp_path: Path) -> None:
    child = Child("engine", ["--model", str(tmp_path / "nowhere")], tmp_path)
    with pytest.raises(UserError, match=rf"^{tmp_path}/nowhere: no config\.json found, [^\n]*$"):
        child.wait_until_ready(60)
    assert not child.stop()


def test_a_child_that_is_too_slow_is_given_up_and_stopped(tmp_path: Path) -> None:
    child = Child("engine", ["--model", str(tmp_path)], tmp_path)
    with pytest.raises(UserError, match=r"^the engine was not ready after 0 s: it said nothing$"):
        child.wait_until_ready(0.0)
    assert stop_all([child]) == ["engine"]
    assert not child.running
    assert not psutil.pid_exists(child.pid)


def test_a_package_of_the_same_name_in_the_users_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = tmp_path / "console"
    decoy.mkdir()
    (decoy / "__init__.py").touch()
    (decoy / "__main__.py").write_text("print('decoy')")
    monkeypatch.chdir(tmp_path)
    child = Child("engine", ["--model", str(tmp_path / "nowhere")], tmp_path)
    with pytest.raises(UserError):
        child.wait_until_ready(60)
    assert "decoy" not in child.log.read_text()
    child.stop()


def test_a_child_that_crashes_says_how(tmp_path: Path) -> None:
    child = Child("engine", ["--model", str(tmp_path)], tmp_path)
    child.kill()
    with pytest.raises(UserError, match=r"^the engine ended with exit code -9: .*, before it was ready$"):
        child.wait_until_ready(60)


@pytest.mark.parametrize("command", ["engine", "collect"])
def test_a_server_stops_when_its_standard_input_ends(command: str, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model")
    words = ["--engine", "http://127.0.0.1:9", "--store", str(tmp_path / "store")] if command == "collect" else []
    command_line = [sys.executable, "-m", "console", command, "--model", str(model), "--port", "0"]
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [*command_line, *words, "--ready-file", str(ready), "--stop-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        assert process.stdin is not None
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.stdin.write(b"not the end")
        process.stdin.flush()
        time.sleep(0.2)
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
