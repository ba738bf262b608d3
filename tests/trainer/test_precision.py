"""Bases in bf16 and fp16 with float32 masters, against float32 with the same rounded weights; and the warning."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from collector.errors import UserError
from tests.trainer.row_by_row import adapter, network, rows, weights
from trainer.engine_config import Dtype
from trainer.lora import TrainedAdapter
from trainer.packing import pack
from trainer.policy import Policy
from trainer.precision import coarsest, precision_warning
from trainer.scorer import Scored
from trainer.tiny_model import write_tiny_model

PACKED = pack(rows("a", 1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("model"), family="qwen3")


def rounded(folder: Path, kept: torch.dtype, computed: torch.dtype) -> tuple[Policy, TrainedAdapter]:
    """Base and adapter hold numbers of `kept`; the base computes in `computed`, the masters are float32."""
    model = network(folder, torch.float32).to(kept).to(computed)
    made = adapter(model, "a", 4, torch.float32)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(parameter.to(kept))
    return Policy(model), made


def gradient(policy: Policy, made: TrainedAdapter, scale: float = 1.0) -> Tensor:
    def loss_of(scored: Scored, indices: Tensor) -> Tensor:
        return (scored.logprobs_N * weights(len(PACKED.targets_N), torch.float32)[indices]).sum() * scale

    for parameter in made.parameters():
        parameter.grad = None
    policy.backward(PACKED, {"a": made}, loss_of)
    assert all(parameter.grad is not None and parameter.grad.dtype == torch.float32 for parameter in made.parameters())
    return torch.cat([parameter.grad.flatten() for parameter in made.parameters() if parameter.grad is not None])


# Rounding to p significant bits errs by up to 2^-p of a number. Logits reach about 8, and some twenty roundings lie
# between an embedding and a logit of these two layers; as random signs they add up to sqrt(20) of one.
# bf16: 8 x 2^-8 x 4.5 = 0.14 nats, fp16: 8 x 2^-11 x 4.5 = 0.018, at the worst token; a gradient by 4.5 x 2^-p.
@pytest.mark.parametrize(
    ("dtype", "nats", "share"), [(torch.bfloat16, 0.14, 4.5 * 2**-8), (torch.float16, 0.018, 4.5 * 2**-11)]
)
def test_half_precision_is_float32_of_the_same_weights_but_for_rounding(
    folder: Path, dtype: torch.dtype, nats: float, share: float
) -> None:
    half, made = rounded(folder, dtype, dtype)
    reference, same = rounded(folder, dtype, torch.float32)
    with torch.no_grad():
        ours, expected = (p.score(PACKED, {"a": a}) for p, a in ((half, made), (reference, same)))
    assert ours.logprobs_N.dtype == ours.entropies_N.dtype == torch.float32
    difference = (ours.logprobs_N - expected.logprobs_N).abs()
    assert 0 < float(difference.max()) <= nats
    assert float((ours.entropies_N - expected.entropies_N).abs().max()) <= nats
    found, exact = gradient(half, made), gradient(reference, same)
    assert 0 < float((found - exact).norm() / exact.norm()) <= share
    assert made.parameters()[0].dtype == torch.float32


@pytest.mark.parametrize("power", [-24, 24])
def test_a_float16_gradient_of_a_tiny_or_huge_loss_is_exactly_scaled(folder: Path, power: int) -> None:
    policy, made = rounded(folder, torch.float16, torch.float16)
    assert torch.equal(gradient(policy, made, 2.0**power), gradient(policy, made) * 2.0**power)


def test_float16_gradients_of_microbatches_with_different_scales_add_up(folder: Path) -> None:
    policy, made = rounded(folder, torch.float16, torch.float16)
    first = gradient(policy, made)
    policy.backward(PACKED, {"a": made}, lambda scored, _: scored.logprobs_N.sum() * 2.0**-20)
    both = torch.cat([parameter.grad.flatten() for parameter in made.parameters() if parameter.grad is not None])
    for parameter in made.parameters():
        parameter.grad = None
    policy.backward(PACKED, {"a": made}, lambda scored, _: scored.logprobs_N.sum() * 2.0**-20)
    second = torch.cat([parameter.grad.flatten() for parameter in made.parameters() if parameter.grad is not None])
    assert torch.equal(both, first + second)


def test_each_adapter_has_a_scale_of_its_own(folder: Path) -> None:
    model = network(folder, torch.float16)
    adapters = {name: adapter(model, name, 4, torch.float32) for name in ("a", "b")}
    policy = Policy(model)
    both = pack([*rows("a", 1), *rows("b", 1)])
    names_N = both.rows_N >= len(rows("a", 1))
    found: list[Tensor] = []
    for b in (1.0, 2.0**30, float("nan")):
        for parameter in (parameter for made in adapters.values() for parameter in made.parameters()):
            parameter.grad = None
        loss_N = torch.where(names_N, torch.tensor(b), torch.tensor(2.0**-20))
        policy.backward(both, adapters, lambda scored, _: (scored.logprobs_N * loss_N).sum())  # noqa: B023
        found.append(torch.cat([p.grad.flatten() for p in adapters["a"].parameters() if p.grad is not None]))
    assert float(found[0].norm()) > 0
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_float16_loss_that_is_not_finite_leaves_a_gradient_that_is_not(folder: Path) -> None:
    policy, made = rounded(folder, torch.float16, torch.float16)
    assert not torch.isfinite(gradient(policy, made, float("nan"))).all()
    assert torch.equal(gradient(policy, made, 0.0), torch.zeros_like(gradient(policy, made)))


def test_float16_depth_first_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="backward_mode is depth_first and dtype float16, expected bfloat16 or float32"):
        Policy(network(folder, torch.float16), mode="depth_first")


def test_one_precision_everywhere_needs_no_warning() -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        assert precision_warning(dtype, dtype, dtype) is None
    assert precision_warning("bfloat16", "bfloat16", "float32") is None


@pytest.mark.parametrize(
    ("trainer", "engine", "adapter_dtype", "text"),
    [
        ("float32", "bfloat16", "float32", "bfloat16 rounds at every operation to 8 significant bits, the other to 24"),
        ("bfloat16", "float32", "bfloat16", "set [trainer] dtype to float32"),
        ("bfloat16", "float16", "bfloat16", "bfloat16 rounds at every operation to 8 significant bits"),
        ("float32", "float32", "bfloat16", "adapters are published in bfloat16 (8 significant bits) and trained in fl"),
        ("float16", "float16", "bfloat16", "publish them in float16"),
    ],
)
def test_the_warning_names_both_precisions_and_the_effect(
    trainer: Dtype, engine: Dtype, adapter_dtype: Dtype, text: str
) -> None:
    warning = precision_warning(trainer, engine, adapter_dtype)
    assert warning is not None
    assert text in warning
    assert "w = pi_old/mu differs from 1 at equal version" in warning


def test_an_engine_that_does_not_say_is_a_warning_of_its_own() -> None:
    assert "does not say in which precision" in str(precision_warning("float32", None, "float32"))


def test_the_coarsest_precision_keeps_the_fewest_bits_and_what_is_not_said_does_not_count() -> None:
    assert coarsest(["float32", None, "float16"]) == "float16"
    assert coarsest(["float16", "bfloat16", "float32"]) == "bfloat16"
    assert coarsest([None]) == "float32"
