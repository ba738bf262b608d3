"""The frozen base with any number of adapters: log-probabilities of the trained tokens of a packed microbatch."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]
from transformers import PreTrainedModel

from collector.errors import UserError
from trainer.lora import LoraHooks, TrainedAdapter
from trainer.packing import Branch, Packed
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import TREE, Tree

PROOF_TOKENS = 24
"""Tokens of the start-up comparison with transformers' own forward pass."""
PROOF_TOLERANCE = 1e-4
"""Nats in float32."""


class Scored(NamedTuple):
    """The trained tokens under the adapters' weights, in the order of `Packed`."""

    logprobs_N: Tensor
    """log pi at the tokens' temperatures, with gradient to the adapters."""
    entropies_N: Tensor
    """Entropy of the full distribution there, without."""


class Policy:
    """One frozen causal language model that trains adapters."""

    def __init__(self, network: PreTrainedModel, *, checkpointing: bool = False) -> None:
        network.eval().requires_grad_(False)
        self.network = network
        self.hooks = LoraHooks(network)
        self._body = network.base_model
        head = cast(object, network.get_output_embeddings())
        if not isinstance(head, torch.nn.Linear) or "bias" in dict(head.named_parameters()):
            raise UserError(f"{type(network).__name__} has a head of its own, expected a linear one without a bias")
        self._head = head
        config = network.config
        self._repeats = config.num_attention_heads // (
            getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        )
        if checkpointing:
            _checkpoint_layers(network)
        self._refuse_dropout()

    def score(self, packed: Packed, adapters: Mapping[str, TrainedAdapter]) -> Scored:
        """log pi and entropy of every trained token, each row as if it were alone."""
        hidden_T_H = self._hidden(packed, adapters)
        device = hidden_T_H.device
        logprobs, entropies = token_logprobs(
            hidden_T_H[packed.predicting_N.to(device)],
            self._head.weight,
            packed.targets_N.to(device),
            packed.temperatures_N.to(device),
        )
        return Scored(logprobs, entropies)

    def backward(
        self, packed: Packed, adapters: Mapping[str, TrainedAdapter], loss_of: Callable[[Scored, Tensor], Tensor]
    ) -> None:
        """Adds the gradients of a loss to the adapters.

        `loss_of(scored, indices)` is a scalar: the summed loss of some of the trained tokens, `indices` being their
        places in `Packed`. It is asked about every trained token exactly once, in one call or in several.
        """
        scored = self.score(packed, adapters)
        indices = torch.arange(len(scored.logprobs_N), device=scored.logprobs_N.device)
        loss_of(scored, indices).backward()  # pyright: ignore[reportUnknownMemberType]

    def prove(self) -> None:
        """Compares the packed pass with transformers' own on random tokens; refuses a model that it gets wrong."""
        generator = torch.Generator().manual_seed(1)
        vocabulary = self._head.weight.shape[0]
        ids = torch.randint(vocabulary, (1, PROOF_TOKENS), generator=generator).to(self._head.weight.device)
        self.hooks.activate([], {})
        with torch.no_grad():
            self.network.set_attn_implementation("eager")
            expected = self.network(ids, use_cache=False).logits[0].float().log_softmax(-1)
            half = PROOF_TOKENS // 2
            branches = (Branch(0, half, None), Branch(half, PROOF_TOKENS, torch.arange(half, device=ids.device)))
            hidden = self._forward(ids, torch.arange(PROOF_TOKENS, device=ids.device)[None], branches)
            ours = (hidden @ self._head.weight.T).float().log_softmax(-1)
        worst = ((expected - ours).abs() * expected.exp()).sum(-1).max().item()
        if not worst <= PROOF_TOLERANCE:
            raise UserError(
                f"log-probabilities differ from transformers' own forward pass by {worst:.3g} nats, expected at most "
                f"{PROOF_TOLERANCE}: the model's attention or head is not plain, and would be trained wrongly"
            )

    def _hidden(self, packed: Packed, adapters: Mapping[str, TrainedAdapter]) -> Tensor:
        device = self._head.weight.device
        self.hooks.activate(packed.slices, adapters)
        return self._forward(packed.ids_T.to(device)[None], packed.positions_T.to(device)[None], packed.branches)

    def _forward(self, ids: Tensor, positions: Tensor, branches: tuple[Branch, ...]) -> Tensor:
        """Hidden states after the last norm, [T, hidden]."""
        self.network.set_attn_implementation(TREE)
        tree = Tree.of(branches, repeats=self._repeats, device=ids.device)
        output = self._body(input_ids=ids, position_ids=positions, use_cache=False, tree=tree)
        return output.last_hidden_state[0]

    def _refuse_dropout(self) -> None:
        modules = cast("Iterator[tuple[str, torch.nn.Module]]", self.network.named_modules())
        rates = [name for name, module in modules if isinstance(module, torch.nn.Dropout) and module.p > 0]
        attention = getattr(self.network.config, "attention_dropout", 0.0) or 0.0
        if rates or attention:
            found = [*rates, "attention_dropout"][0]
            raise UserError(f"the model drops out ({found}), expected none: pi of a trained token would be random")


def _checkpoint_layers(network: PreTrainedModel) -> None:
    """Makes every decoder layer keep its input only, and compute the rest again in the backward pass."""
    layers = getattr(network.base_model, "layers", None)
    if not isinstance(layers, torch.nn.ModuleList):
        raise UserError(f"{type(network).__name__} has no list of layers to checkpoint; train it without checkpointing")
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
