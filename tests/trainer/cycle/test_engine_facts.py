"""Name, version and precision as an engine says them, and what the trainer makes of them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.errors import EngineError
from collector.records import Event, Record
from tests.trainer.engine.loopback import Served, serving
from trainer.config import TrainerConfig
from trainer.cycle.engine_facts import ask_engines, facts_of
from trainer.cycle.parts import Engines, RealParts
from trainer.engine_config import Dtype, EngineConfig
from trainer.publish.publisher import Publisher
from trainer.publish_config import PublishConfig
from trainer.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("served") / "tiny", family="llama")


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with serving(EngineConfig(model=str(model), dtype="bfloat16")) as engine:
        yield engine


@pytest.mark.parametrize(
    ("said", "config", "expected"),
    [
        ("bfloat16", {}, "bfloat16"),
        ("half", {}, "float16"),
        ("float", {}, "float32"),
        ("auto", {"dtype": "bfloat16"}, "bfloat16"),
        ("auto", {"torch_dtype": "float16"}, "float16"),
        ("auto", {"model_type": "llama", "torch_dtype": "float32"}, "float16"),
        ("auto", {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}, "bfloat16"),
        ("auto", {"torch_dtype": "float8"}, None),
        ("fp4", {}, None),
        (None, {}, None),
    ],
)
def test_a_precision_is_known_by_sglangs_own_names(
    tmp_path: Path, said: str | None, config: dict[str, Any], expected: str | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = facts_of("http://a", {"dtype": said, "version": "0.5.23"}, tmp_path)
    assert (facts.name, facts.version, facts.dtype) == ("SGLang", "0.5.23", expected)


def test_the_embedded_engine_says_what_it_computes_in(model: Path, served: Served) -> None:
    [facts] = ask_engines([served.url], None, model)
    assert (facts.name, facts.dtype) == ("roundhouse", "bfloat16")
    with serving(EngineConfig(model=str(model))) as other:
        assert [each.dtype for each in ask_engines([served.url, other.url], None, model)] == ["bfloat16", "float32"]
    with pytest.raises(EngineError, match="cannot be reached"):
        ask_engines(["http://127.0.0.1:9"], None, model)


def test_another_precision_is_said_once_and_recorded(model: Path, served: Served, tmp_path: Path) -> None:
    lines: list[str] = []
    records: list[Record] = []

    def parts(dtype: Any) -> RealParts:
        return RealParts(
            tmp_path,
            TrainerConfig(dtype=dtype),
            model=model,
            base_model="tiny",
            engines=Engines((served.url,)),
            write=records.append,
            say=lines.append,
        )

    made = parts("float32")
    assert [made.base_model(), made.base_model()] == ["tiny", "tiny"]
    [line], [event] = lines, records
    assert line.startswith("precision: the trainer computes in float32 and the engine in bfloat16, ")
    assert isinstance(event, Event)
    assert (event.kind, event.severity, event.text) == ("precision", "warn", line)
    parts("bfloat16").base_model()
    assert (len(lines), len(records)) == (1, 1)


def test_a_proof_expects_the_noise_of_the_coarsest_precision(
    model: Path, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    class Recording(Publisher):
        def __init__(self, workers: Sequence[str], config: PublishConfig, admin_key: str | None = None) -> None:
            super().__init__(workers, config, admin_key)
            seen.append(config.engine_dtype)

    monkeypatch.setattr("trainer.cycle.parts.Publisher", Recording)
    cases: list[Dtype | None] = [None, "float16"]
    for given in cases:
        config = TrainerConfig(publish=PublishConfig(engine_dtype=given))
        engines = Engines((served.url,))
        parts = RealParts(tmp_path, config, model=model, base_model="tiny", engines=engines, write=lambda _: None)
        parts.base_model()
    assert seen == [None, "bfloat16", "float16", "float16"]
