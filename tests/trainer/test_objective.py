"""The objective's formulas, against values worked by hand and gradients of a small softmax."""

import math

import pytest
import torch

from trainer.objective import TokenTerms, token_losses
from trainer.objective_config import ObjectiveConfig


def terms(
    pi: list[float], old: list[float], mu: list[float], advantages: list[float], turns: list[int] | None = None
) -> TokenTerms:
    """Terms from probabilities; pi is a leaf with gradient."""
    log = [torch.tensor([math.log(p) for p in values], dtype=torch.float64) for values in (pi, old, mu)]
    return TokenTerms(
        log[0].requires_grad_(),
        log[1],
        log[2],
        torch.tensor(advantages, dtype=torch.float64),
        torch.tensor(turns or list(range(len(pi)))),
    )


def gradient(given: TokenTerms, config: ObjectiveConfig) -> list[float]:
    """d loss / d log pi of each token."""
    token_losses(given, config).loss_N.sum().backward()
    assert given.logprobs_N.grad is not None
    return given.logprobs_N.grad.tolist()


def test_a_token_twenty_times_likelier_for_the_trainer_weighs_w_max() -> None:
    given = terms([0.20], [0.20], [0.01], [1.0])
    losses = token_losses(given, ObjectiveConfig(w_max=2.0))
    assert losses.w_N.item() == pytest.approx(20, rel=1e-12)
    assert losses.weight_N.item() == 2
    assert losses.truncated_N.tolist() == [True]
    # At pi = pi_old the ratio is 1, its derivative with respect to log pi is 1: -2 * 1 * A.
    assert gradient(given, ObjectiveConfig(w_max=2.0)) == pytest.approx([-2.0])


def test_a_token_below_one_keeps_its_weight() -> None:
    losses = token_losses(terms([0.25], [0.25], [0.5], [-3.0]), ObjectiveConfig())
    assert (losses.weight_N.item(), losses.loss_N.item()) == (pytest.approx(0.5), pytest.approx(1.5))
    assert losses.truncated_N.tolist() == [False]


def test_the_clip_holds_only_where_it_is_the_pessimistic_side() -> None:
    # r = 1.5, 0.5, 1.5, 0.5 with A = +1, +1, -1, -1: held at 1.2, free, free, held at 0.8.
    given = terms([0.3, 0.1, 0.3, 0.1], [0.2] * 4, [0.2] * 4, [1.0, 1.0, -1.0, -1.0])
    losses = token_losses(given, ObjectiveConfig())
    assert losses.loss_N.tolist() == pytest.approx([-1.2, -0.5, 1.5, 0.8])
    assert losses.clipped_N.tolist() == [True, False, False, True]
    assert gradient(given, ObjectiveConfig()) == pytest.approx([0.0, -0.5, 1.5, 0.0])


def test_clip_higher_lets_unlikely_tokens_grow() -> None:
    given = terms([0.13], [0.1], [0.1], [1.0])
    assert token_losses(given, ObjectiveConfig(clip_high=0.28)).loss_N.item() == pytest.approx(-1.28)
    assert token_losses(given, ObjectiveConfig(clip_high=0.4)).loss_N.item() == pytest.approx(-1.3)


def test_without_the_clip_the_ratio_is_free() -> None:
    losses = token_losses(terms([0.9], [0.1], [0.1], [1.0]), ObjectiveConfig(clip=False))
    assert (losses.loss_N.item(), losses.clipped_N.item()) == (pytest.approx(-9), False)


def test_the_mask_variant_drops_tokens_on_both_sides() -> None:
    # w = 4, 1.5, 0.3 with w_max 2: above, inside, below 1/2.
    losses = token_losses(
        terms([0.2, 0.3, 0.3], [0.2, 0.3, 0.3], [0.05, 0.2, 1.0], [1.0] * 3), ObjectiveConfig(importance="mask")
    )
    assert losses.weight_N.tolist() == pytest.approx([0, 1.5, 0])
    assert losses.truncated_N.tolist() == [True, False, True]


def test_the_sequence_variant_multiplies_over_the_turn_and_truncates_once() -> None:
    # Turn 0: w = 2 * 0.5 = 1. Turn 1: w = 3 * 2 = 6, cut at 2.
    given = terms([0.4, 0.2, 0.3, 0.4], [0.4, 0.2, 0.3, 0.4], [0.2, 0.4, 0.1, 0.2], [1.0] * 4, [0, 0, 1, 1])
    losses = token_losses(given, ObjectiveConfig(importance="sequence"))
    assert losses.weight_N.tolist() == pytest.approx([1, 1, 2, 2])
    assert losses.truncated_N.tolist() == [False, False, True, True]
    assert losses.w_N.tolist() == pytest.approx([2, 0.5, 3, 2]), "the reported w stays the token's own"


def test_no_importance_weight_is_one() -> None:
    losses = token_losses(terms([0.2], [0.2], [0.01], [1.0]), ObjectiveConfig(importance="none"))
    assert losses.weight_N.tolist() == [1.0]
    assert losses.w_N.item() == pytest.approx(20)


def test_kl_to_the_base_has_the_expectation_of_the_exact_kl() -> None:
    policy, base = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.5, 0.3]).double()
    exact = sum(float(p) * math.log(float(p) / float(q)) for p, q in zip(policy, base, strict=True))
    given = terms(policy.tolist(), policy.tolist(), policy.tolist(), [0.0] * 3)._replace(
        reference_logprobs_N=base.log()
    )
    per_token = token_losses(given, ObjectiveConfig(kl_base=1.0)).loss_N
    assert float((policy * per_token.detach()).sum()) == pytest.approx(exact, rel=1e-12)
    assert (per_token >= 0).all()


def test_w_and_pi_old_carry_no_gradient() -> None:
    old = torch.tensor([math.log(0.2)], dtype=torch.float64, requires_grad=True)
    given = terms([0.3], [0.2], [0.1], [1.0])._replace(old_logprobs_N=old)
    losses = token_losses(given, ObjectiveConfig(clip=False))
    assert not losses.w_N.requires_grad
    assert not losses.weight_N.requires_grad


def test_the_gradient_is_that_of_the_policy_gradient_theorem() -> None:
    """On a three-token softmax sampled from another policy, the expected gradient is the exact one."""
    logits = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64, requires_grad=True)
    mu, reward = torch.tensor([0.5, 0.25, 0.25]).double(), torch.tensor([1.0, -2.0, 0.5]).double()
    exact = torch.autograd.grad((torch.softmax(logits, 0) * reward).sum(), logits)[0]
    logprobs = torch.log_softmax(logits, 0)
    given = TokenTerms(logprobs, logprobs.detach(), mu.log(), reward, torch.arange(3))
    losses = token_losses(given, ObjectiveConfig(w_max=100.0))
    expected = torch.autograd.grad((mu * -losses.loss_N).sum(), logits)[0]
    assert torch.allclose(expected, exact, atol=1e-14, rtol=0)


def test_lengths_that_disagree_stop_the_computation() -> None:
    given = terms([0.2, 0.2], [0.2, 0.2], [0.2, 0.2], [1.0, 1.0])._replace(sampled_logprobs_N=torch.zeros(3))
    with pytest.raises(ValueError, match=r"sampled_logprobs_N has shape \(3,\), expected \(2,\)"):
        token_losses(given, ObjectiveConfig())


def test_a_kl_without_its_reference_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kl_base is 0.1 and there are no reference"):
        token_losses(terms([0.2], [0.2], [0.2], [1.0]), ObjectiveConfig(kl_base=0.1))


def test_no_tokens_give_no_loss() -> None:
    empty = torch.zeros(0, dtype=torch.float64)
    for importance in ("truncate", "mask", "sequence", "none"):
        losses = token_losses(
            TokenTerms(empty, empty, empty, empty, torch.zeros(0, dtype=torch.long)),
            ObjectiveConfig(importance=importance),
        )
        assert losses.loss_N.shape == (0,)
