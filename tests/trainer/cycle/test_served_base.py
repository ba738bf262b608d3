"""The trainer refuses engines that serve another base model, by the model's shape and vocabulary."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.errors import EngineError, UserError
from tests.trainer.engine.loopback import Served, serving
from trainer.cycle.served_base import refuse_other_base
from trainer.engine_config import EngineConfig
from trainer.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("served") / "tiny", family="llama")


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with serving(EngineConfig(model=str(model))) as engine:
        yield engine


def test_the_same_model_in_the_same_or_another_folder_is_taken(model: Path, served: Served, tmp_path: Path) -> None:
    refuse_other_base([served.url], None, model)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    refuse_other_base([served.url], None, tmp_path)


def test_another_model_is_refused_with_what_differs(model: Path, served: Served, tmp_path: Path) -> None:
    config = json.loads((model / "config.json").read_bytes()) | {"num_hidden_layers": 7}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    with pytest.raises(UserError, match="num_hidden_layers is 2 there and 7 here; start the trainer with the engine"):
        refuse_other_base([served.url], None, tmp_path)


def test_a_worker_that_does_not_answer_is_an_engine_error(model: Path, served: Served) -> None:
    with pytest.raises(EngineError, match="cannot be reached"):
        refuse_other_base([served.url, "http://127.0.0.1:9"], None, model)
