"""The packed pass: equal to transformers and peft on each row alone, forward and backward."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from collector.errors import UserError
from trainer.lora import TrainedAdapter, new_adapter
from trainer.packing import pack
from trainer.policy import Policy
from trainer.rows import SampledRun, TrainingRow
from trainer.tiny_model import Family, write_tiny_model

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
FAMILIES: tuple[Family, ...] = ("llama", "qwen2", "qwen3")
Grads = dict[str, torch.Tensor]


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("model") / request.param, family=request.param)


def network(folder: Path, dtype: torch.dtype) -> Any:
    """The model as transformers loads it; in float64 its norms too, which transformers computes in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
    if dtype == torch.float64:
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.forward = partial(
                    torch.rms_norm, normalized_shape=module.weight.shape, weight=module.weight, eps=1e-6
                )
    return model


def adapter(model: Any, name: str, rank: int, dtype: torch.dtype) -> TrainedAdapter:
    """An adapter both halves of which are random."""
    made = new_adapter(model, name, rank=rank, alpha=2.0 * rank, targets=TARGETS, seed=rank, dtype=dtype)
    generator = torch.Generator().manual_seed(100 + rank)
    with torch.no_grad():
        for pair in made.pairs.values():
            pair.up_O_R.normal_(0, 0.05, generator=generator)
    return made


def row(ids: list[int], spans: list[tuple[int, int]], name: str | None, temperature: float = 1.0) -> TrainingRow:
    runs = tuple(
        SampledRun(f"t{start}", start, end, np.full(end - start, -1.0, dtype=np.float32), temperature, 1)
        for start, end in spans
    )
    return TrainingRow("s", name, np.array(ids, dtype=np.int32), runs)


def rows(name: str | None, seed: int) -> list[TrainingRow]:
    """Six rows that share prefixes of several depths: twins, a row inside another, a fork in mid-row, a stranger."""
    random = np.random.default_rng(seed)
    trunk = random.integers(0, 250, 40).tolist()
    left, right = random.integers(0, 250, 15).tolist(), random.integers(0, 250, 9).tolist()
    return [
        row([*trunk, *left], [(30, 40), (44, 55)], name),
        row([*trunk, *right], [(42, 49)], name, temperature=0.7),
        row([*trunk[:33]], [(31, 33)], name),
        row([*trunk, *left], [(40, 55)], name),
        row([*trunk, *left[:5], *right], [(45, 54)], name),
        row(random.integers(0, 250, 12).tolist(), [(1, 4), (6, 12)], name, temperature=1.5),
    ]


def alone(
    folder: Path, made: TrainedAdapter | None, given: list[TrainingRow], dtype: torch.dtype
) -> tuple[list[torch.Tensor], Grads]:
    """Each row through peft on its own: log-probabilities of its trained tokens, and the gradient of their sum."""
    model = network(folder, dtype)
    if made is not None:
        config = LoraConfig(
            r=made.rank, lora_alpha=int(made.alpha), target_modules=list(TARGETS), task_type="CAUSAL_LM"
        )
        model = get_peft_model(model, config).to(dtype)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                for part, half in (("lora_A", 0), ("lora_B", 1)):
                    if part in name:
                        weight.copy_(made.pairs[name.removeprefix("base_model.model.").partition(f".{part}")[0]][half])
    found: list[torch.Tensor] = []
    for each in given:
        logits = model(torch.tensor([each.ids.tolist()]), use_cache=False).logits[0]
        for run in each.runs:
            logs = (logits[run.start - 1 : run.end - 1] / run.temperature).log_softmax(-1)
            found.append(logs.gather(1, torch.tensor(each.ids[run.start : run.end].tolist())[:, None])[:, 0])
    if made is not None:
        (torch.cat(found) * weights(sum(len(f) for f in found), dtype)).sum().backward()
    grads = {n: w.grad for n, w in model.named_parameters() if "lora_" in n and w.grad is not None}
    return found, grads


def weights(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Unequal weights of the tokens, so that a gradient of the wrong token shows."""
    return torch.linspace(-1, 2, count, dtype=dtype)


def gradient(made: TrainedAdapter, grads: Grads) -> tuple[torch.Tensor, torch.Tensor]:
    """Ours and peft's, flat, in one order."""
    ours, theirs = [], []
    for module, pair in made.pairs.items():
        for part, half in (("lora_A", pair.down_R_I), ("lora_B", pair.up_O_R)):
            assert half.grad is not None
            ours.append(half.grad.flatten())
            theirs.append(grads[f"base_model.model.{module}.{part}.default.weight"].flatten())
    return torch.cat(ours), torch.cat(theirs)


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
