"""Body and head of the frozen base in one module: what a pass computes, and what is sharded as a whole."""

from typing import NamedTuple, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import TREE, Attending


class Scored(NamedTuple):
    """The trained tokens under the adapters' weights, in the order of `Packed`."""

    logprobs_N: Tensor
    """log pi at the tokens' temperatures, with gradient to the adapters."""
    entropies_N: Tensor
    """Entropy of the full distribution there, without."""


class Scorer(torch.nn.Module):
    """Log-probabilities and entropies of the trained tokens of one pass."""

    def __init__(self, network: PreTrainedModel) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        ids_T: Tensor,
        positions_T: Tensor,
        tree: Attending,
        predicting_N: Tensor,
        targets_N: Tensor,
        temperatures_N: Tensor,
    ) -> Scored:
        """Of each target, predicted by the token at its index in the pass."""
        hidden_T_H = self.hidden(ids_T, positions_T, tree)
        return Scored(*token_logprobs(hidden_T_H[predicting_N], self.head_weight(), targets_N, temperatures_N))

    def hidden(self, ids_T: Tensor, positions_T: Tensor, tree: Attending) -> Tensor:
        """Hidden states after the last norm, [T, hidden]."""
        self.network.set_attn_implementation(TREE)
        body = self.network.base_model
        output = body(input_ids=ids_T[None], position_ids=positions_T[None], use_cache=False, tree=tree)
        return cast(Tensor, output.last_hidden_state[0])

    @property
    def device(self) -> torch.device:
        """Where passes are computed."""
        return self.head_weight().device

    def head_weight(self) -> Tensor:
        """[vocabulary, hidden]; whole only inside a pass where the base is sharded."""
        head = cast(torch.nn.Linear, self.network.get_output_embeddings())
        return head.weight
