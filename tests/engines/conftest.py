"""The engines under test, and the models and adapters they serve."""

import json
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
import torch

from collector.engine.client import EngineClient
from tests.engines.engine_process import engine_process, free_port
from tests.engines.oracle import Oracle
from tests.engines.sampled import until_idle
from tests.engines.sglang_env import environment_folder, find_environment, server_command, server_environment
from trainer.tiny_model import write_tiny_adapter, write_tiny_model

CONTEXT = 2048
_WHY_NO_SGLANG = pytest.StashKey[str]()


class Folders(NamedTuple):
    """What the engines load: two models of one shape, and adapters of different ranks and modules."""

    model: Path
    other_model: Path
    ada: Path
    bob: Path
    cyd: Path


class Engine(NamedTuple):
    """A running engine."""

    kind: Literal["embedded", "sglang"]
    url: str


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("models")
    model = write_tiny_model(root / "model", seed=0, context=CONTEXT)
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    return Folders(
        model=model,
        other_model=write_tiny_model(root / "other_model", seed=1, context=CONTEXT),
        ada=write_tiny_adapter(root / "ada", model, rank=8, seed=1),
        bob=write_tiny_adapter(
            root / "bob", model, rank=4, seed=2, target_modules=(*attention, "gate_proj", "up_proj", "down_proj")
        ),
        cyd=write_tiny_adapter(root / "cyd", model, rank=2, seed=3, target_modules=("q_proj", "v_proj")),
    )


@pytest.fixture(scope="session")
def oracle(folders: Folders) -> Oracle:
    return Oracle(folders.model)


@pytest.fixture(scope="session", params=["embedded", pytest.param("sglang", marks=pytest.mark.sglang)])
def engine(
    request: pytest.FixtureRequest, folders: Folders, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Engine, None, None]:
    run_folder = tmp_path_factory.mktemp("engine")
    with ExitStack() as stack:
        if request.param == "sglang":
            command = sglang_command(request.config, folders.model, "--incremental-streaming-output")
            url = stack.enter_context(start_sglang(command, run_folder / "sglang.log"))
        else:
            url = stack.enter_context(_start_embedded(folders, run_folder))
        yield Engine(request.param, url)


@pytest.fixture
async def client(engine: Engine) -> AsyncGenerator[EngineClient, None]:
    client = EngineClient(engine.url, idle_timeout_s=30)
    try:
        yield client
        await client.resume()  # whatever the test left behind
        await until_idle(client)
    finally:
        await client.close()


@pytest.fixture
async def adapters(client: EngineClient, folders: Folders) -> AsyncGenerator[dict[str, Path], None]:
    """Engine names of two loaded adapters, with their folders."""
    loaded = {"ada@1": folders.ada, "bob@1": folders.bob}
    for name, folder in loaded.items():
        await client.load_adapter(name, folder)
    yield loaded
    for name in loaded:
        await client.unload_adapter(name)


def sglang_command(config: pytest.Config, model: Path, *flags: str) -> list[str]:
    """How to start SGLang on the next free port; skips the test when its environment is not there."""
    given: Path | None = config.getoption("--sglang-env")
    folder = given or environment_folder()
    python = find_environment(folder)
    if python is None:
        why = f"no SGLang environment at {folder}; `python tests/engines/sglang_env.py` builds it"
        config.stash[_WHY_NO_SGLANG] = why
        pytest.skip(why)
    return server_command(python, model, free_port(), *flags)


def start_sglang(command: list[str], log: Path):
    """Runs SGLang until the context ends."""
    url = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
    return engine_process(command, environment=server_environment(), log=log, url=url, start_timeout_s=240)


def _start_embedded(folders: Folders, run_folder: Path):
    ready = run_folder / "ready"
    command = [sys.executable, "-m", "console", "engine", "--model", str(folders.model), "--port", "0"]
    return engine_process(
        [*command, "--ready-file", str(ready)],
        environment={"OMP_NUM_THREADS": "1"},
        log=run_folder / "embedded.log",
        url=lambda: json.loads(ready.read_text())["url"] if ready.exists() else None,
        start_timeout_s=60,
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A lane that did not run is said loudly."""
    if why := config.stash.get(_WHY_NO_SGLANG, None):
        terminalreporter.section("THE REAL SGLANG WAS NOT TESTED", sep="!", red=True)
        terminalreporter.line(why)
