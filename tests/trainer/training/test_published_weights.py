"""Weights of versions: known by the registry's hash, and taken for the trained ones only where nothing differs."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from transformers import AutoModelForCausalLM

from collector.errors import UserError
from collector.records import Version
from tests.trainer.training.small_loop import BEGUN
from trainer.adapter_optimizer import AdapterOptimizer
from trainer.checkpoint import save_checkpoint
from trainer.lora import new_adapter
from trainer.optimizer_config import OptimizerConfig
from trainer.tiny_model import write_tiny_model
from trainer.training.published_weights import (
    Gone,
    Published,
    PublishedWeights,
    computes_the_same,
    published_adapter,
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch.set_num_threads(1)
    folder = write_tiny_model(tmp_path_factory.mktemp("model"), layers=1)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def adapter(network: Any, seed: int = 0) -> AdapterOptimizer:
    made = new_adapter(network, "a", rank=2, alpha=4, targets=("q_proj",), seed=seed)
    with torch.no_grad():
        for pair in made.pairs.values():
            pair.up_O_R.normal_(generator=torch.Generator().manual_seed(seed))
    return AdapterOptimizer(made, OptimizerConfig())


def saved(store: Path, optimizer: AdapterOptimizer, dtype: Any = "float32") -> Version:
    found = save_checkpoint(store / "adapters" / "a", optimizer, base_model="tiny", dtype=dtype, baseline=None)
    folder = str(found.folder.relative_to(store))
    times = {"created_at": BEGUN, "changed_at": BEGUN}
    return Version(adapter="a", version=1, state="live", folder=folder, sha256=found.sha256, optimizer_step=0, **times)


def test_a_whole_folder_that_is_not_the_registered_one_is_refused(network: Any, tmp_path: Path) -> None:
    one, other = saved(tmp_path, adapter(network)), saved(tmp_path, adapter(network, seed=1))
    exchanged = msgspec.structs.replace(one, folder=other.folder)
    with pytest.raises(UserError, match="as registered for a@1; the folder was exchanged"):
        published_adapter(network, tmp_path, exchanged)
    assert published_adapter(network, tmp_path, one).name == "a@1"


def test_only_a_cast_that_loses_nothing_computes_the_same(network: Any, tmp_path: Path) -> None:
    optimizer = adapter(network)
    for dtype, same in (("float32", True), ("bfloat16", False)):
        found = PublishedWeights(network, tmp_path, [saved(tmp_path, optimizer, dtype)]).of("a", 1)
        assert isinstance(found, Published)
        assert computes_the_same(found, optimizer.adapter) == same
    assert not computes_the_same(found, adapter(network, seed=1).adapter)
    other_scale = optimizer.adapter._replace(alpha=5.0)
    exact = PublishedWeights(network, tmp_path, [saved(tmp_path, optimizer)]).of("a", 1)
    assert isinstance(exact, Published)
    assert not computes_the_same(exact, other_scale)


def test_an_adapter_is_the_base_until_its_b_moves(network: Any, tmp_path: Path) -> None:
    base = PublishedWeights(network, tmp_path, []).of("a", 0)
    assert base == Published(None, None)
    fresh = new_adapter(network, "a", rank=2, alpha=4, targets=("q_proj",), seed=0)
    assert computes_the_same(base, fresh)
    assert not computes_the_same(base, adapter(network).adapter)


def test_what_cannot_be_had_says_why(network: Any, tmp_path: Path) -> None:
    weights = PublishedWeights(network, tmp_path, [])
    assert weights.of("a", None) == Gone("the turn does not say which version sampled it")
    assert weights.of("a", 7) == Gone("a@7 is not in the registry")
    assert (weights.optimizer_step("a", 0), weights.optimizer_step("a", 7), weights.optimizer_step("a", None)) == (
        0,
        None,
        None,
    )
