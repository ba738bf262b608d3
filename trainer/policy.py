"""The frozen base with any number of adapters: log-probabilities of the trained tokens of a packed microbatch."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]
from transformers import PreTrainedModel

from collector.errors import UserError
from trainer.config import BackwardMode
from trainer.depth_first import DepthFirst
from trainer.lora import LoraHooks, TrainedAdapter, power_of_two
from trainer.model_refusal import refuse_model
from trainer.packing import Branch, Packed
from trainer.policy_proof import NOISE_FACTOR, PROOF_TOLERANCE, nats_apart, proof_rows
from trainer.ranks import Ranks
from trainer.scorer import Scored, Scorer
from trainer.sharded_base import shard_base
from trainer.tree_attention import Tree


class Policy:
    """One frozen causal language model that trains adapters."""

    def __init__(self, network: PreTrainedModel, *, checkpointing: bool = False, mode: BackwardMode = "packed") -> None:
        refuse_model(network)
        if mode == "depth_first" and network.dtype == torch.float16:
            raise UserError(
                "backward_mode is depth_first and dtype float16, expected bfloat16 or float32: one scale must serve "
                "all gradients of a pass, and depth first the largest is known last"
            )
        network.eval().requires_grad_(False)
        self.network = network
        self.hooks = LoraHooks(network)
        self._scorer = Scorer(network)
        self._mode = mode
        self._whole = True
        config = network.config.get_text_config()
        self._repeats = config.num_attention_heads // (
            getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        )
        if checkpointing:
            _checkpoint_layers(network)

    def score(self, packed: Packed, adapters: Mapping[str, TrainedAdapter]) -> Scored:
        """log pi and entropy of every trained token, each row as if it were alone."""
        there = packed.to(self._scorer.device)
        self.hooks.activate(packed.slices, adapters)
        scored = self._scorer(
            there.ids_T,
            there.positions_T,
            self._tree(there.branches),
            there.predicting_N,
            there.targets_N,
            there.temperatures_N,
        )
        return cast(Scored, scored)

    def backward(
        self, packed: Packed, adapters: Mapping[str, TrainedAdapter], loss_of: Callable[[Scored, Tensor], Tensor]
    ) -> None:
        """Adds the gradients of a loss to the adapters.

        `loss_of(scored, indices)` is a scalar: the summed loss of some of the trained tokens, `indices` being their
        places in `Packed`. It is asked about every trained token exactly once, in one call or in several.
        """
        if self._mode == "depth_first":
            walk = DepthFirst(
                self._scorer, self.hooks, packed, adapters, repeats=self._repeats, device=self._scorer.device
            )
            walk.backward(loss_of)
            return
        scored = self.score(packed, adapters)
        indices = torch.arange(len(scored.logprobs_N), device=scored.logprobs_N.device)
        if self._scorer.head_weight().dtype == torch.float16:
            self._backward_scaled(packed, scored, loss_of, indices)
        else:
            loss_of(scored, indices).backward()  # pyright: ignore[reportUnknownMemberType]

    def _backward_scaled(
        self, packed: Packed, scored: Scored, loss_of: Callable[[Scored, Tensor], Tensor], indices: Tensor
    ) -> None:
        """In float16 most gradients of a mean over many tokens would be 0: an adapter's pass through the base times a
        power of two that brings the largest to 1, and reach its masters without it. What overflows is inf there."""
        logprobs = scored.logprobs_N.detach().requires_grad_()
        loss_of(scored._replace(logprobs_N=logprobs), indices).backward()  # pyright: ignore[reportUnknownMemberType]
        gradient_N = logprobs.grad
        assert gradient_N is not None, "a loss of these tokens"
        scaled_N = gradient_N.clone()
        for name, start, end in packed.slices:
            mine = ((packed.predicting_N >= start) & (packed.predicting_N < end)).to(gradient_N.device)
            scale = power_of_two(float(gradient_N[mine].abs().max())) if mine.any() else 1.0
            scaled_N[mine] *= scale
            self.hooks.gradient_scales[name or ""] = scale
        torch.autograd.backward([scored.logprobs_N], [scaled_N])

    def shard(self, ranks: Ranks) -> None:
        """Cuts the base over the ranks; from here on every rank makes the same passes, in the same order."""
        if self._mode == "depth_first" and ranks.size > 1:
            raise UserError(
                f"backward_mode is depth_first and {ranks.size} ranks share the base, expected packed: each rank would "
                "make as many passes as its rows have forks, and wait for the others; use packed with checkpointing"
            )
        shard_base(self._scorer, ranks)
        self._whole = ranks.size == 1

    def prove(self) -> None:
        """Compares the packed pass with transformers' own on random tokens; refuses a model that it gets wrong."""
        if not self._whole:
            raise ValueError("the base is sharded, expected a whole one: prove it before it is cut over ranks")
        device, head = self._scorer.device, self._scorer.head_weight()
        rows, packed, places = proof_rows(head.shape[0])
        self.hooks.activate([], {})
        worst = noise = 0.0
        with torch.no_grad():
            there = packed.to(device)
            ours = self._scorer.hidden(there.ids_T, there.positions_T, self._tree(packed.branches))
            for ids, place in zip(rows, places, strict=True):
                expected, other = (self._plain(ids.to(device), attention) for attention in ("eager", "sdpa"))
                found = (ours[place.to(device)] @ head.T).float().log_softmax(-1)
                worst = max(worst, nats_apart(expected, found))
                noise = max(noise, nats_apart(expected, other))
        half = head.dtype in (torch.bfloat16, torch.float16)
        bound = max(PROOF_TOLERANCE, NOISE_FACTOR * noise) if half else PROOF_TOLERANCE
        if not worst <= bound:
            raise UserError(
                f"log-probabilities differ from transformers' own forward pass by {worst:.3g} nats, expected at most "
                f"{bound:.3g}: attention or head are not plain, and the model would be trained wrongly"
            )

    def _plain(self, ids_T: Tensor, attention: str) -> Tensor:
        """Log-probabilities of a row as transformers computes them."""
        self.network.set_attn_implementation(attention)
        return cast(Tensor, self.network(ids_T[None], use_cache=False).logits)[0].float().log_softmax(-1)

    def _tree(self, branches: tuple[Branch, ...]) -> Tree:
        there = tuple(
            branch if branch.context is None else branch._replace(context=branch.context.to(self._scorer.device))
            for branch in branches
        )
        return Tree.of(there, repeats=self._repeats, device=self._scorer.device)


def _checkpoint_layers(network: PreTrainedModel) -> None:
    """Makes every decoder layer keep its input only, and compute the rest again in the backward pass."""
    layers = getattr(network.base_model, "layers", None)
    if not isinstance(layers, torch.nn.ModuleList):
        raise UserError(f"{type(network).__name__} has no list of layers to checkpoint; train it without checkpointing")
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
