"""The start-up comparison of the packed pass with transformers' own, on rows that share a prefix."""

import numpy as np
import torch
from torch import Tensor

from trainer.packing import Packed, pack
from trainer.rows import SampledRun, TrainingRow

PROOF_TOKENS = 24
"""Tokens of each of the two rows."""
PROOF_SHARED = 12
"""Tokens that both begin with; what a pass ignores of the tree shows in those after them."""
PROOF_TOLERANCE = 1e-4
"""Mean nats between the two distributions at any token, weighted by the model's own; in float32."""
NOISE_FACTOR = 4.0
"""In bf16 and fp16: times what two of transformers' own attention functions differ by."""


def proof_rows(vocabulary: int) -> tuple[list[Tensor], Packed, list[Tensor]]:
    """Ids of each row, both packed, and where in the packing each row's tokens lie."""
    random = np.random.default_rng(1)
    drawn = random.integers(0, vocabulary, 2 * PROOF_TOKENS - PROOF_SHARED)
    shared, own = drawn[:PROOF_SHARED], np.sort(drawn[PROOF_SHARED:].reshape(2, -1), axis=0)
    rows = [np.concatenate([shared, tail]).astype(np.int32) for tail in own]
    logprobs = np.zeros(1, dtype=np.float32)
    packed = pack(
        [
            TrainingRow("", None, ids, (SampledRun("", PROOF_TOKENS - 1, PROOF_TOKENS, logprobs, 1.0, None),))
            for ids in rows
        ]
    )
    first, second = packed.branches
    assert second.context is not None
    places = [torch.arange(first.tokens), torch.cat([second.context, torch.arange(second.start, second.end)])]
    return [torch.from_numpy(ids.astype(np.int64)) for ids in rows], packed, places


def nats_apart(expected: Tensor, found: Tensor) -> float:
    """The largest mean difference of two log-distributions at any token; infinite where one is not finite."""
    return float((expected.exp() * (expected - found).abs()).sum(-1).max().nan_to_num(torch.inf))
