"""Checkpoints: served as trained, resumed exactly, and never half of one taken for whole."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from collector.errors import UserError
from trainer.adapter_optimizer import AdapterOptimizer
from trainer.checkpoint import Checkpoint, read_checkpoint, resume, save_checkpoint, skipped_folders
from trainer.engine.adapter_file import read_adapter
from trainer.linear_modules import linear_modules
from trainer.lora import new_adapter
from trainer.optimizer_config import OptimizerConfig
from trainer.peft_folder import read_peft
from trainer.tiny_model import write_tiny_model

ROOT = Path(__file__).parents[2]
FILES = ("adapter_config.json", "adapter_model.safetensors", "optimizer.safetensors", "manifest.json")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("model"), family="qwen3")


def network(base: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)


def trained(model: Any, *, steps: int, name: str = "a", rank: int = 4) -> AdapterOptimizer:
    """An adapter that some random gradients have moved."""
    made = new_adapter(model, name, rank=rank, alpha=8, targets=("q_proj", "down_proj"), seed=1)
    optimizer = AdapterOptimizer(made, OptimizerConfig(lr=1e-2))
    move(optimizer, range(steps))
    return optimizer


def move(optimizer: AdapterOptimizer, steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for parameter in optimizer.adapter.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        assert optimizer.update().applied


def save(parent: Path, optimizer: AdapterOptimizer) -> Checkpoint:
    return save_checkpoint(parent, optimizer, base_model="tiny", dtype="float32", baseline=0.25)


def test_peft_and_the_engine_load_what_was_trained(base: Path, tmp_path: Path) -> None:
    model = network(base)
    optimizer = trained(model, steps=3)
    saved = save(tmp_path, optimizer)
    shapes = {name: (m.out_features, m.in_features) for name, m in linear_modules(model).items()}
    pairs = read_adapter(str(saved.folder), shapes)
    assert pairs.keys() == optimizer.adapter.pairs.keys()
    for name, (down, up, scaling) in pairs.items():
        assert torch.equal(down, optimizer.adapter.pairs[name].down_R_I)
        assert torch.equal(up, optimizer.adapter.pairs[name].up_O_R)
        assert scaling == optimizer.adapter.scaling == 2.0
    ids = torch.tensor([[5, 6, 7, 8]])
    expected = model(ids).logits
    served = PeftModel.from_pretrained(network(base), saved.folder)
    assert not torch.allclose(served(ids).logits, expected, atol=1e-3), "the adapter changes the model"
    weight = dict(served.named_parameters())["base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight"]
    assert torch.equal(weight, optimizer.adapter.pairs["model.layers.0.self_attn.q_proj"].down_R_I)


def test_the_served_file_is_cast_and_the_masters_are_not(base: Path, tmp_path: Path) -> None:
    optimizer = trained(network(base), steps=1)
    saved = save_checkpoint(tmp_path, optimizer, base_model="tiny", dtype="bfloat16", baseline=None)
    served = load_file(saved.folder / "adapter_model.safetensors")
    masters = load_file(saved.folder / "optimizer.safetensors")
    for module, pair in optimizer.adapter.pairs.items():
        assert torch.equal(served[f"base_model.model.{module}.lora_A.weight"], pair.down_R_I.bfloat16())
        assert torch.equal(masters[f"{module}.lora_A"], pair.down_R_I)


def test_training_goes_on_bit_for_bit(base: Path, tmp_path: Path) -> None:
    model = network(base)
    optimizer = trained(model, steps=3)
    found = read_checkpoint(save(tmp_path, optimizer).folder)
    assert (found.manifest.optimizer_step, found.manifest.baseline) == (3, 0.25)
    other = trained(model, steps=0)
    resume(found, other)
    move(optimizer, range(3, 6))
    move(other, range(3, 6))
    assert other.step == 6
    assert all(torch.equal(value, other.state()[name]) for name, value in optimizer.state().items())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_checkpoint_is_refused_by_the_name_of_its_file(
    base: Path, tmp_path: Path, name: str, damage: str
) -> None:
    path = save(tmp_path, trained(network(base), steps=1)).folder / name
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[0 if name == "manifest.json" else len(content) // 2] ^= 0x10
        path.write_bytes(content)
    else:
        path.unlink()
    with pytest.raises(UserError, match=name):
        read_checkpoint(path.parent)
    assert name in skipped_folders(tmp_path, ())[0].reason


def test_folders_that_are_no_version_are_named_with_the_reason(base: Path, tmp_path: Path) -> None:
    optimizer = trained(network(base), steps=1)
    version, left, cut = (save(tmp_path, optimizer).folder for _ in range(3))
    (cut / "manifest.json").unlink()
    unfinished = tmp_path / ".step-00000002.77.tmp"
    unfinished.mkdir()
    reasons = {each.folder: each.reason for each in skipped_folders(tmp_path, [version])}
    assert reasons.keys() == {left, cut, unfinished}
    assert reasons[unfinished] == "not finished: it still has its temporary name"
    assert reasons[left] == "whole, but no version: its cycle ended before it was registered"
    assert "manifest.json: [Errno 2]" in reasons[cut]


def test_nothing_there_is_nothing_skipped(tmp_path: Path) -> None:
    assert skipped_folders(tmp_path / "none", ()) == ()


def test_candidates_of_one_step_never_share_a_folder(base: Path, tmp_path: Path) -> None:
    optimizer = trained(network(base), steps=1)
    first, second = save(tmp_path, optimizer), save(tmp_path, optimizer)
    assert first.folder != second.folder
    assert first.folder < second.folder, "in the order they were saved in"
    assert first.sha256 == second.sha256, "the content is the same"
    shutil.rmtree(second.folder)
    assert save(tmp_path, optimizer).folder not in (first.folder, second.folder), "a deleted name is not used again"


def test_a_full_disk_is_said_and_leaves_nothing(base: Path, tmp_path: Path) -> None:
    optimizer = trained(network(base), steps=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(UserError, match=r"File too large.*make room on the disk"):
            save(tmp_path / "a", optimizer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "a").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file/a: Not a directory; nothing was saved"):
        save(tmp_path / "file" / "a", optimizer)


def test_weights_that_are_not_finite_are_not_saved(base: Path, tmp_path: Path) -> None:
    optimizer = trained(network(base), steps=1)
    with torch.no_grad():
        optimizer.adapter.parameters()[1][0, 0] = torch.inf
    with pytest.raises(UserError, match=r"adapter a: .*lora_B is not finite after step 1.*lower its learning rate"):
        save(tmp_path, optimizer)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_other_targets_is_not_resumed_and_changes_nothing(base: Path, tmp_path: Path) -> None:
    model = network(base)
    saved = save(tmp_path, trained(model, steps=1))
    made = new_adapter(model, "a", rank=4, alpha=8, targets=("q_proj", "down_proj", "o_proj"), seed=1)
    before = [parameter.clone() for parameter in made.parameters()]
    with pytest.raises(UserError, match="were targets changed"):
        resume(saved, AdapterOptimizer(made, OptimizerConfig()))
    assert all(torch.equal(was, now) for was, now in zip(before, made.parameters(), strict=True))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_was_published_is_read_back_as_an_engine_reads_it(base: Path, tmp_path: Path, dtype: Any) -> None:
    model = network(base)
    optimizer = trained(model, steps=2)
    saved = save_checkpoint(tmp_path, optimizer, base_model="tiny", dtype=dtype, baseline=None)
    found = read_peft(model, saved.folder, "a@1")
    assert (found.name, found.rank, found.alpha) == ("a@1", 4, 8.0)
    assert found.pairs.keys() == optimizer.adapter.pairs.keys()
    for module, pair in optimizer.adapter.pairs.items():
        for half, master in zip(found.pairs[module], pair, strict=True):
            assert torch.equal(half, master.detach().to(getattr(torch, dtype)).float())
            assert not half.requires_grad


def test_a_checkpoint_of_another_adapter_is_not_resumed(base: Path, tmp_path: Path) -> None:
    model = network(base)
    saved = save(tmp_path, trained(model, steps=1))
    other = trained(model, steps=0, rank=8)
    before = other.state()["step"]
    with pytest.raises(UserError, match="rank is 4, expected 8; nothing was resumed"):
        resume(read_checkpoint(saved.folder), other)
    assert torch.equal(other.state()["step"], before)


WRITER = """
import sys, torch
from pathlib import Path
torch.set_num_threads(1)
from tests.trainer.test_checkpoint import network, trained, move, save
base, parent = Path(sys.argv[1]), Path(sys.argv[2])
optimizer = trained(network(base), steps=1)
print("ready", flush=True)
for step in range(2, 2000):
    saved = save(parent, optimizer)
    print(saved.folder.name, saved.sha256, flush=True)
    move(optimizer, range(step, step + 1))
"""


@pytest.mark.parametrize("kills", [2, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_a_kill_at_any_moment_leaves_every_announced_checkpoint_whole(base: Path, tmp_path: Path, kills: int) -> None:
    for kill in range(kills):
        parent = tmp_path / str(kill)
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(base), str(parent)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.01 + 0.013 * (kill % 17))
        os.kill(child.pid, signal.SIGKILL)
        announced = [line.split() for line in child.stdout.read().splitlines() if len(line.split()) == 2]
        child.wait()
        child.stdout.close()
        for name, sha256 in announced:
            assert read_checkpoint(parent / name).sha256 == sha256
        skipped = skipped_folders(parent, [parent / name for name, _ in announced])
        # What was renamed and not yet announced is whole too; nothing else has a checkpoint's name.
        assert all(each.folder.name.startswith(".") or "whole" in each.reason for each in skipped), skipped
        assert len(skipped) <= 1, skipped


def test_the_manifest_names_every_other_file(base: Path, tmp_path: Path) -> None:
    saved = save(tmp_path, trained(network(base), steps=1))
    listed = json.loads((saved.folder / "manifest.json").read_text())["files"]
    assert sorted(each["name"] for each in listed) == sorted(set(FILES) - {"manifest.json"})
    assert sorted(path.name for path in saved.folder.iterdir()) == sorted(FILES)
