"""Loading an engine with its settings and its start-up adapters."""

from pathlib import Path

import pytest

from collector.errors import UserError
from trainer.engine.running import load_engine
from trainer.engine_config import EngineConfig
from trainer.tiny_model import write_tiny_adapter


def test_start_up_adapters_are_loaded(llama: Path, tmp_path: Path) -> None:
    adapter = write_tiny_adapter(tmp_path / "a", llama, rank=2)
    engine = load_engine(EngineConfig(adapters={"a@1": str(adapter)}), str(llama))
    assert set(engine.bank.loaded) == {"a@1"}


def test_an_adapter_that_does_not_fit_is_refused_by_name(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"adapter a: {tmp_path}/adapter_config.json: not found"):
        load_engine(EngineConfig(adapters={"a": str(tmp_path)}), str(llama))


def test_a_longer_context_than_the_models_is_refused(llama: Path) -> None:
    with pytest.raises(UserError, match="max_context is 4096, expected at most the 2048 positions"):
        load_engine(EngineConfig(max_context=4096), str(llama))


def test_room_for_tokens_is_what_one_gibibyte_holds(llama: Path) -> None:
    engine = load_engine(EngineConfig(), str(llama))
    # 2 layers, keys and values of 2 heads of 16 numbers of 4 bytes: 512 bytes a token.
    assert engine.scheduler.kv_tokens == 2**30 // 512


# On a machine with CUDA the 99th is missing all the same.
@pytest.mark.parametrize("device", ["cuda:99", "nope", "meta"])
def test_a_device_that_torch_cannot_use_is_refused_in_one_line(llama: Path, device: str) -> None:
    with pytest.raises(UserError) as refused:
        load_engine(EngineConfig(device=device), str(llama))
    said = str(refused.value)
    assert said.startswith(f"device is {device}, expected one that this torch can use, such as cpu: ")
    assert "\n" not in said
