"""A collector that renders for another model than the engine serves notices it."""

from pathlib import Path

import pytest

from collector.engine.wire import ModelInfo
from collector.errors import EngineUnavailable
from collector.fakes import ScriptedEngine
from collector.rendering.renderer import Renderer
from collector.served_model import ServedModel
from tests.collector.loopback import post, serve
from trainer.tiny_model import write_tiny_model


class Telling:
    """An engine that serves one path, or is not there."""

    def __init__(self, path: Path | str | None) -> None:
        self.path = path

    async def model_info(self) -> ModelInfo:
        if self.path is None:
            raise EngineUnavailable("nobody answers")
        return ModelInfo(model_path=str(self.path))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("llama"))


async def test_the_same_folder_and_a_copy_of_it_are_the_same_model(llama: Path, tmp_path: Path) -> None:
    copy = write_tiny_model(tmp_path / "copy")
    for path in (llama, copy):
        served = ServedModel(Telling(path), llama)
        await served.look()
        assert (served.known, served.difference) == (True, None)


async def test_another_architecture_is_named(llama: Path, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "qwen", family="qwen2")
    served = ServedModel(Telling(other), llama)
    await served.look()
    assert served.difference is not None
    assert "architectures is ['Qwen2ForCausalLM'] there and ['LlamaForCausalLM'] here" in served.difference


async def test_another_vocabulary_is_named(llama: Path, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "other")
    file = other / "tokenizer.json"
    file.write_text(file.read_text(encoding="utf-8").replace("<think>", "<thonk>"), encoding="utf-8")
    served = ServedModel(Telling(other), llama)
    await served.look()
    assert served.difference is not None
    assert "different vocabularies" in served.difference


async def test_a_path_that_is_not_here_cannot_be_compared(llama: Path) -> None:
    for path in ("/models/elsewhere", "someone/model"):
        served = ServedModel(Telling(path), llama)
        await served.look()
        assert (served.known, served.difference) == (True, None)


async def test_an_engine_that_does_not_answer_is_asked_again_and_a_new_model_is_seen(
    llama: Path, tmp_path: Path
) -> None:
    engine = Telling(None)
    served = ServedModel(engine, llama)
    await served.look()
    assert not served.known
    engine.path = llama
    await served.look()
    assert (served.known, served.difference) == (True, None)
    engine.path = write_tiny_model(tmp_path / "qwen", family="qwen2")
    await served.look()
    assert served.difference is not None


async def test_an_engine_that_serves_another_model_is_asked_nothing(llama: Path, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "qwen", family="qwen2")
    engine = ScriptedEngine()
    compared = ServedModel(Telling(other), llama)
    async with serve(Renderer.from_folder(llama), engine, served_model=compared) as served:
        asked = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
        status, _, answer = await post(served, "/v1/chat/completions", asked)
        missing = await served.collector.not_ready()
    assert (status, answer["error"]["code"]) == (503, "another_model")
    assert any("architectures is ['Qwen2ForCausalLM'] there" in line for line in missing)
    assert engine.requests == []
