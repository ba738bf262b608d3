"""The depth-first gradient: equal to peft row by row and to the packed pass, in the memory of one row."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainer.live_bytes import LiveBytes
from tests.trainer.row_by_row import FAMILIES, adapter, alone, gradient, network, row, rows, weights
from trainer.config import BackwardMode
from trainer.lora import TrainedAdapter
from trainer.packing import Packed, pack
from trainer.policy import Policy
from trainer.rows import TrainingRow
from trainer.scorer import Scored
from trainer.tiny_model import write_tiny_model


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("model") / request.param, family=request.param)


def backward(policy: Policy, packed: Packed, adapters: dict[str, TrainedAdapter], weights_N: Tensor) -> list[list[int]]:
    """One gradient of the weighted sum of all log-probabilities; which tokens each call of the loss was about."""
    asked: list[list[int]] = []

    def loss_of(scored: Scored, indices: Tensor) -> Tensor:
        asked.append(indices.tolist())
        assert len(scored.logprobs_N) == len(scored.entropies_N) == len(indices)
        return (scored.logprobs_N * weights_N[indices]).sum()

    for made in adapters.values():
        for parameter in made.parameters():
            parameter.grad = None
    policy.backward(packed, adapters, loss_of)
    return asked


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_two_adapters_equal_peft_row_by_row_and_the_packed_pass(
    folder: Path, dtype: torch.dtype, checkpointing: bool
) -> None:
    model = network(folder, dtype)
    adapters = {name: adapter(model, name, rank, dtype) for name, rank in (("a", 4), ("b", 8))}
    given = {"a": rows("a", 1), "b": rows("b", 1)}
    together = [each for pair in zip(given["a"], given["b"], strict=True) for each in pair]
    packed = pack(together)
    names = [together[index].adapter for index in packed.rows_N.tolist()]
    weights_N = torch.zeros(len(names), dtype=dtype)
    for name in adapters:
        mine = torch.tensor([each == name for each in names])
        weights_N[mine] = weights(int(mine.sum()), dtype)
    backward(Policy(model), packed, adapters, weights_N)
    in_one_pass = {name: torch.cat([_grad(p) for p in made.parameters()]) for name, made in adapters.items()}
    policy = Policy(network(folder, dtype), checkpointing=checkpointing, mode="depth_first")
    asked = backward(policy, packed, adapters, weights_N)
    assert sorted(index for call in asked for index in call) == list(range(len(names)))
    assert len(asked) > 2 * len(adapters), "one call a node"
    for name, made in adapters.items():
        ours, theirs = gradient(made, alone(folder, made, given[name], dtype)[1])
        assert (ours - theirs).norm() / theirs.norm() <= 1e-5
        assert (ours - in_one_pass[name]).norm() / theirs.norm() <= 1e-5
        if dtype == torch.float64:
            assert torch.allclose(ours, theirs, atol=1e-10, rtol=0)
            assert torch.allclose(ours, in_one_pass[name], atol=1e-10, rtol=0)


def test_rows_without_an_adapter_are_asked_about_and_change_nothing(folder: Path) -> None:
    model = network(folder, torch.float64)
    adapters = {"a": adapter(model, "a", 4, torch.float64)}
    mixed = pack([*rows("a", 1), *rows(None, 1)])
    alone_N = torch.linspace(-1, 2, len(mixed.targets_N), dtype=torch.float64)
    policy = Policy(model, mode="depth_first")
    asked = backward(policy, mixed, adapters, alone_N)
    found = torch.cat([_grad(p) for p in adapters["a"].parameters()])
    assert sorted(index for call in asked for index in call) == list(range(len(mixed.targets_N)))
    only = pack(rows("a", 1))
    backward(policy, only, adapters, alone_N[: len(only.targets_N)])
    assert torch.allclose(found, torch.cat([_grad(p) for p in adapters["a"].parameters()]), atol=1e-12, rtol=0)


def bushy(leaves: int) -> list[TrainingRow]:
    """Rows of 96 tokens: a trunk of 32, forks of 32 for every four rows, 32 of a row's own."""
    random = np.random.default_rng(0)
    trunk = random.integers(0, 250, 32).tolist()
    made: list[TrainingRow] = []
    for _ in range(leaves // 4):
        limb = random.integers(0, 250, 32).tolist()
        made += [row([*trunk, *limb, *random.integers(0, 250, 32).tolist()], [(64, 96)], "a") for _ in range(4)]
    return made


@pytest.mark.parametrize("checkpointing", [False, True])
def test_memory_is_that_of_one_row_however_many_there_are(
    tmp_path_factory: pytest.TempPathFactory, checkpointing: bool
) -> None:
    torch.set_num_threads(1)
    folder = write_tiny_model(tmp_path_factory.mktemp("model"))

    def peak(leaves: int, mode: BackwardMode) -> int:
        model = network(folder, torch.float32)
        adapters = {"a": adapter(model, "a", 4, torch.float32)}
        policy = Policy(model, checkpointing=checkpointing, mode=mode)
        packed = pack(bushy(leaves)) if leaves else pack(bushy(4)[:1])
        weights_N = torch.ones(len(packed.targets_N))
        with LiveBytes() as live:
            backward(policy, packed, adapters, weights_N)
        return live.peak

    one_row = peak(0, "packed")
    assert peak(8, "depth_first") <= 1.1 * one_row
    assert peak(16, "depth_first") <= 1.1 * one_row
    assert peak(8, "packed") >= 3 * one_row


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad.flatten()
