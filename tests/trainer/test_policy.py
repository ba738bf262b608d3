"""The packed pass: equal to transformers and peft on each row alone, forward and backward."""

from pathlib import Path

import pytest
import torch

from collector.errors import UserError
from tests.trainer.row_by_row import FAMILIES, TARGETS, adapter, alone, gradient, network, row, rows, weights
from trainer.lora import new_adapter
from trainer.packing import pack
from trainer.policy import Policy
from trainer.tiny_model import write_tiny_model


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("model") / request.param, family=request.param)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("dtype", "forward_atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_two_adapters_over_shared_prefixes_equal_peft_row_by_row(
    folder: Path, dtype: torch.dtype, forward_atol: float, checkpointing: bool
) -> None:
    model = network(folder, dtype)
    policy = Policy(model, checkpointing=checkpointing)
    adapters = {name: adapter(model, name, rank, dtype) for name, rank in (("a", 4), ("b", 8))}
    given = {"a": rows("a", 1), "b": rows("b", 1)}
    together = [each for pair in zip(given["a"], given["b"], strict=True) for each in pair]
    packed = pack(together)
    assert len(packed.ids_T) < packed.unshared_tokens / 2, "the rows share most of their tokens"
    scored = policy.score(packed, adapters)
    loss = torch.zeros((), dtype=dtype)
    for name, of_adapter in given.items():
        mine = torch.tensor([together[index].adapter == name for index in packed.rows_N.tolist()])
        expected, grads = alone(folder, adapters[name], of_adapter, dtype)
        assert torch.allclose(scored.logprobs_N[mine], torch.cat(expected), atol=forward_atol, rtol=0)
        loss = loss + (scored.logprobs_N[mine] * weights(int(mine.sum()), dtype)).sum()
        given[name] = grads  # type: ignore[assignment]
    loss.backward()
    for name, made in adapters.items():
        ours, theirs = gradient(made, given[name])  # type: ignore[arg-type]
        if dtype == torch.float64:
            assert torch.allclose(ours, theirs, atol=1e-10, rtol=0)
        assert (ours - theirs).norm() / theirs.norm() <= 1e-5


def test_the_base_alone_equals_transformers(folder: Path) -> None:
    model = network(folder, torch.float32)
    given = rows(None, 3)
    with torch.no_grad():
        scored = Policy(model).score(pack(given), {})
    expected, _ = alone(folder, None, given, torch.float32)
    assert torch.allclose(scored.logprobs_N, torch.cat(expected), atol=1e-5, rtol=0)


def test_the_entropy_is_that_of_the_full_distribution_at_the_temperature(folder: Path) -> None:
    model = network(folder, torch.float32)
    given = [row([5, 6, 7, 8], [(2, 4)], None, temperature=0.5)]
    with torch.no_grad():
        scored = Policy(model).score(pack(given), {})
        model.set_attn_implementation("eager")
        logs = (model(torch.tensor([[5, 6, 7, 8]])).logits[0, 1:3] / 0.5).log_softmax(-1)
    assert torch.allclose(scored.entropies_N, -(logs.exp() * logs).sum(-1), atol=1e-5, rtol=0)


def test_an_adapter_of_zeros_is_the_base(folder: Path) -> None:
    model = network(folder, torch.float32)
    fresh = new_adapter(model, "a", rank=4, alpha=8, targets=TARGETS, seed=1)
    policy = Policy(model)
    with torch.no_grad():
        assert torch.equal(
            policy.score(pack(rows("a", 2)), {"a": fresh}).logprobs_N, policy.score(pack(rows(None, 2)), {}).logprobs_N
        )


def test_one_adapters_nan_reaches_no_other(folder: Path) -> None:
    model = network(folder, torch.float32)
    policy = Policy(model)
    adapters = {name: adapter(model, name, 4, torch.float32) for name in ("a", "b")}
    with torch.no_grad():
        next(iter(adapters["b"].pairs.values())).up_O_R.fill_(float("nan"))
    policy.score(pack([*rows("a", 1), *rows("b", 1)]), adapters).logprobs_N.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in adapters["a"].parameters() if p.grad is not None)
    assert not all(torch.isfinite(p.grad).all() for p in adapters["b"].parameters() if p.grad is not None)


def test_the_proof_passes_plain_models_and_refuses_one_that_looks_at_its_attention_function(folder: Path) -> None:
    model = network(folder, torch.float32)
    policy = Policy(model)
    policy.prove()

    def doubled_in_eager(_: object, __: object, output: torch.Tensor) -> torch.Tensor:
        return output * (2 if model.config._attn_implementation == "eager" else 1)

    model.model.norm.register_forward_hook(doubled_in_eager)
    with pytest.raises(UserError, match="differ from transformers' own forward pass by"):
        policy.prove()


def test_rows_of_an_unknown_adapter_are_refused(folder: Path) -> None:
    policy = Policy(network(folder, torch.float32))
    with pytest.raises(ValueError, match="rows of adapter 'x', expected some of none"):
        policy.score(pack([row([1, 2, 3], [(1, 3)], "x")]), {})
