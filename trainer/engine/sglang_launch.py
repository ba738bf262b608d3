"""Launches a real SGLang server with the flags that this project needs. Imports no torch."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from collector.errors import UserError
from collector.listening import listen, url_of
from collector.ready_file import write_ready_file
from trainer.engine.model_folder import find_model
from trainer.engine_config import EngineConfig

POLL_S = 0.25
"""How often the starting server is asked whether it is ready."""
STOP_S = 20.0
"""How long the server may take to end when it is told to."""
MAX_LORA_RANK = 64
"""Ranks up to this fit a slot."""


def launch_sglang(settings: EngineConfig, *, python: str, ready_file: Path | None, say: Callable[[str], None]) -> int:
    """Starts SGLang under an interpreter that has it, waits, and ends it with this process; the exit code."""
    _check_importable(python)
    with listen(settings.host, settings.port) as probe:
        port = int(probe.getsockname()[1])
    command = sglang_command(settings, model=find_model(settings, say), python=python, port=port)
    say("loading with SGLang: " + " ".join(command))
    child = subprocess.Popen(command, env={**os.environ, **_environment(settings)})
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        told.append(number)
        child.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    url = url_of(settings.host, port)
    try:
        if _wait_ready(child, url):
            if ready_file is not None:
                write_ready_file(ready_file, url)
            say(f"serving {settings.served_name or settings.model} at {url} (SGLang, process {child.pid})")
        code = child.wait()
    finally:
        _end(child)
    return 0 if told else code


def sglang_command(settings: EngineConfig, *, model: str, python: str, port: int) -> list[str]:
    """The command line: deltas in streams, adapters by name and read strictly, and the settings' limits."""
    command = [python, "-m", "sglang.launch_server", "--incremental-streaming-output", "--enable-metrics"]
    values = {
        "--model-path": model,
        "--served-model-name": settings.served_name or settings.model,
        "--host": settings.host,
        "--port": port,
        "--dtype": settings.dtype,
        "--max-running-requests": settings.max_running,
        "--chunked-prefill-size": settings.prefill_chunk,
        "--context-length": settings.max_context,
        "--max-total-tokens": settings.kv_tokens,
        "--device": settings.device,
    }
    for flag, value in values.items():
        command += [] if value is None else [flag, str(value)]
    command += ["--enable-lora", "--lora-strict-loading"]
    command += ["--max-lora-rank", str(MAX_LORA_RANK), "--lora-target-modules", "all"]
    # The base model counts as one of a batch.
    command += ["--max-loaded-loras", str(settings.max_adapters)]
    command += ["--max-loras-per-batch", str(min(8, settings.max_adapters))]
    if settings.device == "cpu":
        native = ["--attention-backend", "torch_native", "--lora-backend", "torch_native"]
        command += [*native, "--sleep-on-idle"]
    if settings.adapters:
        command += ["--lora-paths", *(f"{name}={folder}" for name, folder in settings.adapters.items())]
    return command


def _environment(settings: EngineConfig) -> dict[str, str]:
    if settings.device != "cpu":
        return {}
    return {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": str(settings.threads)}


def _check_importable(python: str) -> None:
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('sglang') is None)"
    try:
        found = subprocess.run([python, "-c", look], check=False, capture_output=True).returncode == 0
    except OSError as error:
        raise UserError(f"--sglang-python {python}: cannot be run: {error}") from error
    if not found:
        raise UserError(
            f"{python} has no sglang; install the sglang extra there (pip install '.[sglang]'), or give the "
            "interpreter of an environment that has it with --sglang-python"
        )


def _wait_ready(child: "subprocess.Popen[bytes]", url: str) -> bool:
    while child.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=2) as answer:
                if answer.status == 200:
                    return True
        except (OSError, urllib.error.URLError):
            time.sleep(POLL_S)
    return False


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
