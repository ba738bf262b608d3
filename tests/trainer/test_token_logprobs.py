"""Chunked log-probabilities and entropies, against autograd over whole logits."""

import pytest
import torch

from trainer.token_logprobs import token_logprobs


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_values_and_gradients_are_those_of_whole_logits(chunk: int) -> None:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(7, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    head = torch.randn(11, 5, dtype=torch.float64, generator=generator)
    targets, temperatures = torch.tensor([0, 3, 10, 3, 5, 1, 2]), torch.tensor([1, 0.5, 2, 1, 0.7, 1, 1.3]).double()
    weights = torch.linspace(-1, 1, 7, dtype=torch.float64)
    logprobs, entropies = token_logprobs(hidden, head, targets, temperatures, chunk=chunk)
    logs = (hidden @ head.T / temperatures[:, None]).log_softmax(1)
    expected = logs.gather(1, targets[:, None])[:, 0]
    assert torch.allclose(logprobs, expected, atol=1e-13, rtol=0)
    assert torch.allclose(entropies, -(logs.exp() * logs).sum(1), atol=1e-13, rtol=0)
    ours = torch.autograd.grad((logprobs * weights).sum(), hidden, retain_graph=True)[0]
    theirs = torch.autograd.grad((expected * weights).sum(), hidden)[0]
    assert torch.allclose(ours, theirs, atol=1e-13, rtol=0)


def test_a_uniform_distribution_has_the_entropy_log_v() -> None:
    logprobs, entropies = token_logprobs(torch.zeros(1, 4), torch.zeros(8, 4), torch.tensor([2]), torch.ones(1))
    assert entropies.item() == pytest.approx(3 * 0.6931471805599453, rel=1e-6)
    assert logprobs.item() == pytest.approx(-3 * 0.6931471805599453, rel=1e-6)


def test_the_entropy_carries_no_gradient() -> None:
    hidden = torch.randn(2, 4, requires_grad=True)
    _, entropies = token_logprobs(hidden, torch.randn(6, 4), torch.tensor([0, 1]), torch.ones(2))
    assert not entropies.requires_grad


def test_no_tokens_are_no_numbers() -> None:
    logprobs, entropies = token_logprobs(
        torch.zeros(0, 4), torch.zeros(6, 4), torch.zeros(0, dtype=torch.long), torch.ones(0)
    )
    assert (logprobs.shape, entropies.shape) == ((0,), (0,))


def test_a_head_that_is_trained_is_refused() -> None:
    with pytest.raises(ValueError, match="expected it frozen"):
        token_logprobs(torch.zeros(1, 4), torch.zeros(6, 4, requires_grad=True), torch.tensor([0]), torch.ones(1))


def test_a_token_with_a_small_share_of_the_gradient_keeps_all_of_its_distribution() -> None:
    """In float16 a probability times such a share would be 0, and only the sampled token's column would be left."""
    generator = torch.Generator().manual_seed(2)
    head = 1 + torch.randn(4096, 8, generator=generator)
    hidden = torch.zeros(2, 8)  # uniform: each probability is 2.4e-4
    shares = torch.tensor([1.0, 1e-4])
    found: list[torch.Tensor] = []
    for dtype in (torch.float16, torch.float64):
        given = hidden.to(dtype).requires_grad_()
        logprobs, _ = token_logprobs(given, head.to(dtype), torch.tensor([3, 5]), torch.ones(2))
        (logprobs * shares.to(logprobs.dtype)).sum().backward()
        assert given.grad is not None
        found.append(given.grad.double() / shares[:, None])
    assert ((found[0] - found[1]).norm(dim=1) / found[1].norm(dim=1)).max().item() < 0.01
