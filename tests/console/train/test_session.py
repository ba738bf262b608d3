"""`roundhouse train` whole: a tiny model on the embedded engine, from captured turns to a version that is served."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from collector.store.reader import Reader
from collector.store.registry_rows import read_registry
from collector.store.writer import Writer
from console.cli import main
from console.train.session import owned
from tests.console.train.captured import TENANT, capture, settings, suite
from tests.trainer.engine.loopback import Served, serving
from trainer.engine_config import EngineConfig
from trainer.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny", family="llama")


@pytest.fixture
def served(model: Path) -> Iterator[Served]:
    with serving(EngineConfig(model=str(model))) as engine:
        yield engine


def states(store: Path) -> list[tuple[int, str]]:
    return [(each.version, each.state) for each in read_registry(store).versions]


def routes(store: Path) -> list[tuple[str, str | None, int]]:
    return [(each.tenant, each.adapter, each.version) for each in read_registry(store).routes]


def events(store: Path, kind: str) -> list[dict[str, Any]]:
    with Reader(store).snapshot(["events"]) as snapshot:
        rows = snapshot.arrow("events").to_pylist()
    return [row | {"detail": json.loads(row["detail"] or "{}")} for row in rows if row["kind"] == kind]


def test_two_cycles_from_captured_turns_to_a_served_version(
    tmp_path: Path, model: Path, served: Served, capfd: pytest.CaptureFixture[str]
):
    store = tmp_path / "store"
    capture(store, served, base_model=model.name, sessions=16, seed=1)
    config = settings(tmp_path / "r.toml", suite=suite(tmp_path / "held.jsonl", 12), engine=served.url)
    words = ["train", "--store", str(store), "--config", str(config), "--model", str(model), "--once"]
    assert main([*words, "--dry-run"]) == 0
    said = capfd.readouterr().out
    assert "would take 2 optimizer steps from a new adapter" in said
    assert "dry run: nothing was written" in said
    assert not (store / "registry.sqlite").exists()

    code = main([*words, "--json"])
    assert code == 0, json.loads(capfd.readouterr().out)["adapters"][0]["reason"]
    outcome = json.loads(capfd.readouterr().out)
    assert [(each["adapter"], each["ending"], each["version"]) for each in outcome["adapters"]] == [
        ("bot", "routed", 1)
    ]
    assert states(store) == [(0, "retired"), (1, "live")]
    assert routes(store) == [(TENANT, "bot", 1)]
    assert [*served.engine.bank.loaded] == ["bot@1"]
    [proof] = events(store, "proof")
    assert (proof["version"], proof["detail"]["verdict"]) == (1, "proved")
    gate = read_registry(store).versions[1].gate
    assert gate is not None
    assert gate["verdict"] == "pass"

    with Reader(store).snapshot(["runs"]) as snapshot:
        [run] = snapshot.arrow("runs").to_pylist()
    assert json.loads(run["versions"])["engine"] == "roundhouse, float32"

    assert main([*words, "--plain"]) == 0
    assert "bot: nothing new" in capfd.readouterr().out

    capture(store, served, base_model=model.name, sessions=16, seed=2, adapter="bot", version=1)
    assert main([*words, "--plain"]) == 0
    said = capfd.readouterr().out
    assert "bot: routed: version 2 takes the new sessions" in said
    assert states(store) == [(0, "retired"), (1, "retired"), (2, "live")]
    assert routes(store) == [(TENANT, "bot", 2)]
    assert [*served.engine.bank.loaded] == ["bot@2"]
    versions = read_registry(store).versions
    assert [(each.parent, each.optimizer_step) for each in versions] == [(None, 0), (0, 2), (1, 4)]


@pytest.mark.parametrize("other", ["trainer", "night-shift"])
def test_a_store_has_one_trainer_whatever_its_journal_is_called(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], other: str
):
    store, config = tmp_path / "store", tmp_path / "r.toml"
    with Writer(store, "collector"):
        pass
    for first, second in ((other, "day-shift"), ("day-shift", other)):
        config.write_text(f'[trainer]\nwriter = "{second}"\n[trainer.adapters.bot]\ntenant = "acme"\n')
        with ExitStack() as owner:
            owned(owner, store, first)
            assert main(["train", "--store", str(store), "--config", str(config), "--once"]) == 2
        assert "another trainer owns this store" in capfd.readouterr().err
