"""LiteLLM's proxy, in an environment of its own: its pins are not ours."""

import subprocess
import sys
import venv
from pathlib import Path

from tests.benchmarks.proxy_load import KEY
from tests.benchmarks.proxy_reply import MODEL

VERSION = "1.108.7"
_FOLDER = Path.home() / ".cache" / "roundhouse" / f"litellm-{VERSION}"
ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "NO_DOCS": "True"}
"""Nothing outside the machine is asked."""


def find() -> Path | None:
    """The installed command; None where there is none."""
    command = _FOLDER / "bin" / "litellm"
    return command if command.is_file() else None


def install() -> Path:
    """Installs it from the package index; subprocess.CalledProcessError where that fails."""
    venv.create(_FOLDER, with_pip=True, clear=True)
    pip = [str(_FOLDER / "bin" / "python"), "-m", "pip", "install", "-q", f"litellm[proxy]=={VERSION}"]
    subprocess.run(pip, stdout=sys.stderr, check=True)
    found = find()
    assert found is not None
    return found


def command(litellm: Path, engine: str, port: int, folder: Path) -> list[str]:
    """One worker in front of the engine, without a database."""
    config = folder / "litellm.yaml"
    config.write_text(
        f"model_list:\n- model_name: {MODEL}\n  litellm_params:\n    model: openai/{MODEL}\n"
        f"    api_base: {engine}/v1\n    api_key: none\n"
        f"general_settings:\n  master_key: {KEY}\n"
    )
    return [str(litellm), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
