"""A version that no engine holds is loaded and proved by `roundhouse adapters` before it is routed to."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.registry_rows import read_registry
from console.cli import main
from tests.console.train.captured import TENANT, capture
from tests.trainer.adapter_lines import PASSED, WHY
from tests.trainer.engine.loopback import Served, serving
from tests.trainer.publish.tampering import tampering
from trainer.adapter_optimizer import AdapterOptimizer
from trainer.adapters import add_adapter
from trainer.base_model import load_policy
from trainer.checkpoint import save_checkpoint
from trainer.config import TrainerConfig
from trainer.engine_config import EngineConfig
from trainer.lora import new_adapter
from trainer.optimizer_config import OptimizerConfig
from trainer.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny", family="llama")


@pytest.fixture
def served(model: Path) -> Iterator[Served]:
    with serving(EngineConfig(model=str(model), max_adapters=2)) as engine:
        yield engine


def register(store: Path, model: Path, version: int) -> None:
    """A checkpoint whose weights are not 0, and the candidate made of it."""
    network = load_policy(model, TrainerConfig(device="cpu"))[0].network
    adapter = new_adapter(network, "bot", rank=4, alpha=8.0, targets=("q_proj", "v_proj", "down_proj"), seed=version)
    torch.manual_seed(version)
    for pair in adapter.pairs.values():
        torch.nn.init.normal_(pair.up_O_R, std=0.1)
    optimizer = AdapterOptimizer(adapter, OptimizerConfig())
    folder = store / "adapters" / "bot"
    made = save_checkpoint(folder, optimizer, base_model="tiny", dtype="float32", baseline=None)
    with Registry(store) as registry:
        registry.register_version(
            "bot",
            version,
            parent=version - 1,
            optimizer_step=version,
            folder=str(made.folder.relative_to(store)),
            sha256=made.sha256,
            trained_on=[],
            **WHY,
        )
        registry.record_gate("bot", version, PASSED, **WHY)


def proofs(store: Path) -> list[tuple[int, str]]:
    with Reader(store).snapshot(["events"]) as snapshot:
        rows: list[dict[str, Any]] = snapshot.arrow("events").to_pylist()
    return [(row["version"], json.loads(row["detail"])["verdict"]) for row in rows if row["kind"] == "proof"]


def test_a_version_is_loaded_and_proved_before_it_is_promoted(
    tmp_path: Path, model: Path, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    capture(store, served, base_model="tiny", sessions=3, seed=1)
    with Registry(store) as registry:
        add_adapter(registry, "bot", tenant=TENANT, base_model="tiny", **WHY)
    register(store, model, 1)
    words = ["adapters", "promote", "bot", "1", "--store", str(store), "--reason", "so", "--yes"]
    words += ["--engine", served.url, "--model", str(model)]
    assert main(words) == 0, capsys.readouterr().err
    told = capsys.readouterr()
    assert told.out.startswith("bot: live is 1, was 0")
    assert told.err.startswith(f"bot@1 is not loaded by {served.url}, expected on every worker; ")
    assert proofs(store) == [(1, "proved")]
    assert [*served.engine.bank.loaded] == ["bot@1"]


def test_a_version_that_is_not_what_is_served_is_not_routed_to(
    tmp_path: Path, model: Path, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    capture(store, served, base_model="tiny", sessions=3, seed=1)
    with Registry(store) as registry:
        add_adapter(registry, "bot", tenant=TENANT, base_model="tiny", **WHY)
    register(store, model, 1)
    words = ["adapters", "canary", "bot", "1", "--share", "0.5", "--store", str(store), "--reason", "so", "--yes"]
    with tampering(served.url, asked=lambda order: order.pop("lora_path", None)) as url:
        assert main([*words, "--engine", url, "--model", str(model)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "bot@1 is not proved to be served: " in told.err.splitlines()[-1]
    assert proofs(store) == [(1, "refuted")]
    registry_now = read_registry(store)
    assert [each.state for each in registry_now.versions] == ["live", "candidate"]
    assert [route.version for route in registry_now.routes] == [0]


def test_an_adapter_of_another_base_model_is_refused(
    tmp_path: Path, model: Path, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    capture(store, served, base_model="tiny", sessions=1, seed=1)
    with Registry(store) as registry:
        add_adapter(registry, "bot", tenant=TENANT, base_model="large", **WHY)
    register(store, model, 1)
    words = ["adapters", "promote", "bot", "1", "--store", str(store), "--reason", "so", "--yes"]
    assert main([*words, "--engine", served.url, "--model", str(model)]) == 2
    assert "registered on the base model 'large', but the engine serves 'tiny'" in capsys.readouterr().err
    assert not served.engine.bank.loaded
