"""The exact KL to live, against brute force in float64 with transformers and peft."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from trainer.exact_kl import context_row, exact_kl
from trainer.lora import TrainedAdapter, new_adapter
from trainer.policy import Policy
from trainer.rows import SampledRun, TrainingRow
from trainer.tiny_model import write_tiny_model

TARGETS = ("q_proj", "v_proj", "down_proj")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("model") / "qwen2", family="qwen2")


def network(folder: Path, dtype: torch.dtype = torch.float64) -> Any:
    """In float64 its norms too, which transformers computes in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
    if dtype == torch.float64:
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.forward = partial(
                    torch.rms_norm, normalized_shape=module.weight.shape, weight=module.weight, eps=1e-6
                )
    return model


def adapter(model: Any, seed: int, dtype: torch.dtype = torch.float64) -> TrainedAdapter:
    """One whose both halves are random. All have one name, as versions of one line have."""
    made = new_adapter(model, "bot", rank=4, alpha=8, targets=TARGETS, seed=seed, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for pair in made.pairs.values():
            pair.up_O_R.normal_(0, 0.1, generator=generator)
    return made


def rows() -> list[TrainingRow]:
    random = np.random.default_rng(1)
    trunk = random.integers(0, 250, 20)
    made: list[TrainingRow] = []
    for tail, spans, temperature in ((9, [(12, 15), (20, 29)], 1.0), (5, [(21, 25)], 0.7), (70, [(15, 90)], 1.3)):
        ids = np.concatenate([trunk, random.integers(0, 250, tail)]).astype(np.int32)
        runs = (
            SampledRun(f"t{start}", start, end, np.zeros(end - start, dtype=np.float32), temperature, 1)
            for start, end in spans
        )
        made.append(TrainingRow("s", "bot", ids, tuple(runs)))
    return made


def alone(folder: Path, made: TrainedAdapter | None, given: list[TrainingRow]) -> torch.Tensor:
    """Full log-probabilities at the positions, each row through peft on its own."""
    model = network(folder)
    if made is not None:
        config = LoraConfig(
            r=made.rank, lora_alpha=int(made.alpha), target_modules=list(TARGETS), task_type="CAUSAL_LM"
        )
        model = get_peft_model(model, config).to(torch.float64)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                for part, half in (("lora_A", 0), ("lora_B", 1)):
                    if part in name:
                        weight.copy_(made.pairs[name.removeprefix("base_model.model.").partition(f".{part}")[0]][half])
    found: list[torch.Tensor] = []
    with torch.no_grad():
        for row in given:
            logits = model(torch.tensor([row.ids.tolist()]), use_cache=False).logits[0]
            found += [(logits[run.start - 1 : run.end - 1] / run.temperature).log_softmax(-1) for run in row.runs]
    return torch.cat(found)


@pytest.mark.parametrize("live_seed", [2, None])
@pytest.mark.parametrize("budget", [40, 10_000])
def test_it_is_the_sum_over_the_vocabulary(folder: Path, live_seed: int | None, budget: int) -> None:
    model = network(folder)
    new = adapter(model, 1)
    live = None if live_seed is None else adapter(model, live_seed)
    given = rows()
    found = exact_kl(Policy(model), given, new=new, live=live, budget_tokens=budget)
    ours, theirs = alone(folder, new, given), alone(folder, live, given)
    expected = (ours.exp() * (ours - theirs)).sum(1)
    assert found.positions == len(expected) == 3 + 9 + 4 + 75
    assert found.mean == pytest.approx(expected.mean().item(), rel=1e-9)
    assert found.max == pytest.approx(expected.max().item(), rel=1e-9)
    assert found.mean > 0.01


def test_it_is_not_symmetric_and_the_candidate_comes_first(folder: Path) -> None:
    model = network(folder)
    one, two = adapter(model, 1), adapter(model, 2)
    policy = Policy(model)
    forth = exact_kl(policy, rows(), new=one, live=two, budget_tokens=1000)
    back = exact_kl(policy, rows(), new=two, live=one, budget_tokens=1000)
    assert abs(forth.mean - back.mean) > 1e-6


def test_an_adapter_has_no_distance_from_itself(folder: Path) -> None:
    model = network(folder, torch.float32)
    made = adapter(model, 1, torch.float32)
    found = exact_kl(Policy(model), rows(), new=made, live=made, budget_tokens=1000)
    assert (found.mean, found.max) == (0.0, 0.0)


def test_a_broken_adapter_gives_no_number(folder: Path) -> None:
    model = network(folder, torch.float32)
    made = adapter(model, 1, torch.float32)
    with torch.no_grad():
        next(iter(made.pairs.values())).up_O_R.fill_(float("nan"))
    found = exact_kl(Policy(model), rows(), new=made, live=None, budget_tokens=40)
    assert math.isnan(found.mean)
    assert math.isnan(found.max)


def test_no_context_is_no_number(folder: Path) -> None:
    model = network(folder, torch.float32)
    found = exact_kl(Policy(model), [], new=adapter(model, 1, torch.float32), live=None, budget_tokens=40)
    assert found.positions == 0
    assert math.isnan(found.mean)


def test_a_context_alone_is_compared_at_every_position_that_has_one_before_it() -> None:
    row = context_row([5, 6, 7, 8])
    assert (row.runs[0].start, row.runs[0].end) == (1, 4)
    assert context_row([5, 6, 7, 8], start=3).trained_tokens == 1
    with pytest.raises(ValueError, match="start is 1 in 1 ids"):
        context_row([5])
