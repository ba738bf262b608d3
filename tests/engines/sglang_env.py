"""Builds the environment of the real SGLang server on a CPU, once per machine, in a cache folder.

`python tests/engines/sglang_env.py` prints the folder when it is ready, and ends with 1 and the reason when it
cannot be built. The recipe is one that was seen to work: SGLang without its CUDA dependencies, exact versions of
what its import needs, and at run time the shims beside this file.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

SGLANG_VERSION = "0.5.23"
HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "sglang_requirements.txt"
SHIMS = HERE / "shims"
PIP_STEPS = [
    # With its dependencies: the CUDA build of torch, where pip gives that one, does not import without them.
    ["--constraint", str(REQUIREMENTS), "torch==2.13.0"],
    ["--no-deps", "--requirement", str(REQUIREMENTS)],
]
PROBE = "import sglang, torch, transformers, xgrammar; print(sglang.__version__)"


class BuildFailed(Exception):
    """The environment cannot be built here; the message says at which step and why."""


def default_root() -> Path:
    """The cache folder that holds one environment per recipe."""
    return Path.home() / ".cache" / "roundhouse" / f"sglang-{SGLANG_VERSION}-cpu"


def environment_folder(root: Path | None = None) -> Path:
    """Where the environment of this recipe, Python and machine is, whether or not it has been built."""
    machine = f"{sys.version_info[:2]} {platform.system()} {platform.machine()}\n"
    key = hashlib.sha256(machine.encode() + REQUIREMENTS.read_bytes()).hexdigest()
    return (root or default_root()) / key[:16]


def find_environment(folder: Path) -> Path | None:
    """The interpreter of a built environment, or None."""
    python = folder / "bin" / "python"
    return python if python.exists() else None


def server_environment() -> dict[str, str]:
    """What the server's process needs beside the environment it inherits."""
    return {
        "PYTHONPATH": str(SHIMS),
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        # Compiling the repetition penalty takes half a minute, and needs a C++ compiler.
        "TORCHDYNAMO_DISABLE": "1",
    }


def server_command(python: Path, model_folder: Path, port: int, *flags: str) -> list[str]:
    """Starts a server on loopback, in float32 and with adapters, that does not spin while it is idle."""
    options = {
        "--model-path": str(model_folder),
        "--host": "127.0.0.1",
        "--port": str(port),
        "--device": "cpu",
        "--attention-backend": "torch_native",
        "--dtype": "float32",
        "--max-total-tokens": "20000",
        "--max-lora-rank": "8",
        "--lora-target-modules": "all",
        "--max-loras-per-batch": "3",
        "--max-loaded-loras": "4",
        "--lora-backend": "torch_native",
    }
    words = [word for option in options.items() for word in option]
    switches = ["--enable-lora", "--lora-strict-loading", "--sleep-on-idle"]
    return [str(python), "-m", "sglang.launch_server", *words, *switches, *flags]


def install(folder: Path) -> None:
    """Makes the environment in `folder` and imports SGLang there once."""
    _step([sys.executable, "-m", "venv", str(folder)])
    python = str(folder / "bin" / "python")
    for arguments in PIP_STEPS:
        _step([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments])
    found = _step([python, "-c", PROBE], server_environment()).split()
    if SGLANG_VERSION not in found:
        raise BuildFailed(f"the environment imports sglang {found}, expected {SGLANG_VERSION}")


def build(root: Path | None = None, installer: Callable[[Path], None] = install) -> Path:
    """Makes the environment unless it is there, and returns its folder: whole, or not there at all."""
    folder = environment_folder(root)
    if find_environment(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.with_suffix(".lock")):
        if find_environment(folder):
            return folder
        for left_over in folder.parent.glob(f"{folder.name}.tmp-*"):
            shutil.rmtree(left_over)
        staging = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=folder.parent))
        try:
            installer(staging)
            # Only `bin/python -m ...` is used afterwards, so the scripts with the old path in them do not matter.
            staging.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return folder


def main(words: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Builds the environment of the real SGLang server on a CPU.")
    parser.add_argument("--root", type=Path, help=f"cache folder (default {default_root()})")
    arguments = parser.parse_args(words)
    try:
        print(build(arguments.root))
    except (BuildFailed, OSError) as error:
        print(f"the SGLang environment cannot be built: {error}", file=sys.stderr)
        return 1
    return 0


def _step(command: list[str], extra_environment: dict[str, str] | None = None) -> str:
    print("+", " ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(extra_environment or {})})
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise BuildFailed(f"{' '.join(command)} ended with {done.returncode}:\n{tail}")
    return done.stdout


@contextmanager
def _lock(path: Path) -> Generator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
