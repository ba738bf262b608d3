"""Real agents from npm, kept in ~/.cache/roundhouse and run where there is no network but loopback."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collector.store.reader import Reader

_CACHE = Path.home() / ".cache" / "roundhouse"
_INSTALL_LIMIT_S = 300
_ROOT = Path(__file__).parents[2]
END = "<|im_end|>"


class Ran(NamedTuple):
    """How a client's runs went, and what is on record of them."""

    statuses: list[int]
    outs: list[str]
    errs: list[str]
    requests: int
    """Calls that reached the engine."""
    turns: list[dict[str, Any]]
    """In the order they came."""
    retries: list[tuple[str, str]]
    """The turn that is a retry, and the turn of the first attempt."""


def installed(package: str, version: str, command: str, after: str | None = None) -> Path:
    """The command of a package; skips where it is neither in the cache nor to be had."""
    folder = _CACHE / f"clients-{command}-{version}"
    found = folder / "node_modules" / ".bin" / command
    if not found.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip(f"npm is missing: {package} {version} cannot be installed, so it was NOT tested")
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as work:
            asked = [npm, "install", "--no-audit", "--no-fund", "--prefix", work, f"{package}@{version}"]
            done = subprocess.run(asked, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S, check=False)
            if done.returncode != 0:
                pytest.skip(f"npm cannot install {package} {version}, so it was NOT tested: {done.stderr[-300:]}")
            if after is not None:
                # npm asks before it runs a package's own script; this one puts the binary in its place.
                subprocess.run(["node", after], cwd=Path(work, "node_modules", package), check=True, timeout=60)
            if not folder.exists():
                Path(work).rename(folder)
                Path(work).mkdir()
    return found


def tool_call(name: str, **arguments: object) -> str:
    """A call as Qwen3 samples it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def run(
    folder: Path,
    commands: list[list[str]],
    env: dict[str, str],
    replies: list[dict[str, Any]],
    *,
    context_tokens: int = 2_000_000,
    timeout_s: float = 90,
) -> Ran:
    """Runs the commands one after the other against a collector whose engine samples these replies."""
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine gives no network namespace (unshare -rn), so real clients were NOT tested")
    work = folder / "work"
    work.mkdir(exist_ok=True)
    plan = {
        "store": str(folder / "store"),
        "replies": replies,
        "commands": commands,
        "env": {"PATH": os.environ["PATH"], **env},
        "folder": str(work),
        "timeout_s": timeout_s,
        "context_tokens": context_tokens,
    }
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    asked = ["unshare", "-rn", sys.executable, "-m", "tests.clients.scripted_session", str(path)]
    done = subprocess.run(asked, cwd=_ROOT, capture_output=True, text=True, timeout=timeout_s + 60, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(path.with_suffix(".result.json").read_text())
    with Reader(folder / "store").snapshot(["turns", "events"]) as snapshot:
        rows = snapshot.frame("turns").sort("seq").rows(named=True)
        told = snapshot.frame("events").filter(kind="retry")["detail"].to_list()
    retries = [(detail["turn_id"], detail["retry_of"]) for detail in map(json.loads, told)]
    return Ran(result["statuses"], result["outs"], result["errs"], result["requests"], rows, retries)


def check_extends(turns: list[dict[str, Any]]) -> None:
    """Every turn continues the one before, token by token, and each is fit to be trained on."""
    assert [turn["link"] for turn in turns] == ["root", *["extends"] * (len(turns) - 1)]
    for earlier, later in pairwise(turns):
        before = earlier["prompt_ids"] + earlier["completion_ids"]
        assert later["prompt_ids"][: len(before)] == before
        assert later["parent_turn_id"] == earlier["turn_id"]
    assert all(turn["trainable"] and turn["complete"] for turn in turns)
    assert len({turn["session_id"] for turn in turns}) == 1
