"""`roundhouse train` as two processes under torchrun: one owner, and the version that one process makes."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from collector.records import Version
from collector.store.reader import Reader
from collector.store.registry_rows import read_registry
from console.cli import main
from tests.console.train.captured import capture, settings, suite
from tests.trainer.engine.loopback import serving
from trainer.engine_config import EngineConfig
from trainer.tiny_model import write_tiny_model

ROOT = Path(__file__).parents[3]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "console"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny", family="llama")


@contextmanager
def two_processes(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """torchrun, ended with its processes in any case."""
    started = subprocess.Popen([*TORCHRUN, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
            started.communicate(timeout=90)


def words(store: Path, config: Path, model: Path, url: str) -> list[str]:
    named = ["--store", str(store), "--config", str(config), "--model", str(model), "--engine", url]
    return ["train", *named, "--plain", "--once"]


def version_one(store: Path) -> Version:
    versions = read_registry(store).versions
    assert [(each.version, each.state) for each in versions] == [(0, "retired"), (1, "live")]
    return versions[1]


def kl_to_live(version: Version) -> float:
    assert version.gate is not None
    criteria: Any = version.gate["criteria"]
    return next(each["candidate"] for each in criteria if each["name"] == "kl")


def test_two_processes_make_the_version_that_one_makes(
    tmp_path: Path, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    held_out = suite(tmp_path / "held.jsonl", 12)
    with serving(EngineConfig(model=str(model))) as served:
        config = settings(tmp_path / "r.toml", suite=held_out, engine=served.url)
        capture(tmp_path / "one", served, base_model=model.name, sessions=16, seed=1)
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        assert main(words(tmp_path / "one", config, model, served.url)) == 0
        said = capfd.readouterr().out
    with serving(EngineConfig(model=str(model))) as served:
        with two_processes(words(tmp_path / "two", config, model, served.url)) as started:
            output, errors = started.communicate(timeout=300)
        assert started.returncode == 0, errors
        assert [*served.engine.bank.loaded] == ["bot@1"]
    assert len(output.splitlines()) == len(said.splitlines()), "one process speaks"
    assert "bot: routed: version 1 takes the new sessions" in output
    one, two = (version_one(tmp_path / name) for name in ("one", "two"))
    assert (one.optimizer_step, one.trained_on) == (two.optimizer_step, two.trained_on)
    weights, others = (
        load_file(tmp_path / name / str(version.folder) / "adapter_model.safetensors")
        for name, version in (("one", one), ("two", two))
    )
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        assert torch.allclose(weight, others[name], atol=2e-5), name
    assert max(float(weight.abs().max()) for name, weight in weights.items() if "lora_B" in name) > 1e-4
    assert 0 < kl_to_live(one) == pytest.approx(kl_to_live(two), rel=1e-2)


@pytest.mark.long
def test_what_the_first_process_refuses_ends_both_and_the_second_says_nothing(tmp_path: Path, model: Path) -> None:
    with serving(EngineConfig(model=str(model))) as served:
        config = settings(tmp_path / "r.toml", suite=suite(tmp_path / "held.jsonl", 12), engine=served.url)
        capture(tmp_path / "store", served, base_model=model.name, sessions=1, seed=1)
    # It meets the second one first, and then finds that the engine is gone.
    with two_processes(words(tmp_path / "store", config, model, served.url)) as started:
        output, errors = started.communicate(timeout=120)
    assert started.returncode == 1
    assert output == ""
    said = [line for line in errors.splitlines() if line.startswith("roundhouse train: ")]
    assert len(said) == 1
    assert f"{served.url} cannot be reached" in said[0]
    assert "Traceback" not in errors.partition("torch/distributed/elastic")[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("sessions", "sign", "states"),
    [(1, "next cycle: ", ["idle_scheduled"]), (16, "bot: 16 turns of 16 sessions", [])],
    ids=["waiting", "training"],
)
def test_a_signal_ends_both_where_they_can_leave_off_together(
    tmp_path: Path, model: Path, sessions: int, sign: str, states: list[str]
) -> None:
    with serving(EngineConfig(model=str(model))) as served:
        config = settings(tmp_path / "r.toml", suite=suite(tmp_path / "held.jsonl", 12), engine=served.url)
        capture(tmp_path / "store", served, base_model=model.name, sessions=sessions, seed=1)
        scheduled = [*words(tmp_path / "store", config, model, served.url)[:-1], "--every", "5h"]
        with two_processes(scheduled) as started:
            assert started.stdout is not None
            assert any(sign in line for line in iter(started.stdout.readline, ""))
            started.send_signal(signal.SIGINT)
            # torchrun would kill what does not end within 30 s.
            _, errors = started.communicate(timeout=29)
    assert "roundhouse" not in errors.partition("Traceback")[0]
    assert [each.version for each in read_registry(tmp_path / "store").versions] == [0]
    with Reader(tmp_path / "store").snapshot(["spans"]) as snapshot:
        assert [row["kind"] for row in snapshot.arrow("spans").to_pylist()] == states
