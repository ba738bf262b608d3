"""KL(candidate, live) over the full vocabulary, at every sampled position of stored contexts."""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from trainer.gate.report import KlToLive
from trainer.lora import TrainedAdapter
from trainer.microbatches import microbatches
from trainer.packing import Packed, pack
from trainer.policy import Policy
from trainer.rows import SampledRun, TrainingRow

CHUNK_TOKENS = 64
"""Positions whose two distributions exist at a time: 50 MB of float64 for a vocabulary of 49,152."""


def exact_kl(
    policy: Policy,
    contexts: Sequence[TrainingRow],
    *,
    new: TrainedAdapter,
    live: TrainedAdapter | None,
    budget_tokens: int,
) -> KlToLive:
    """KL(new, live) in nats, each position at the temperature its token was sampled at; live None is the base model.

    The positions are those that predict the tokens of the contexts' runs. Nothing is estimated from samples.
    """
    total, worst, positions = 0.0, 0.0, 0
    for indices in microbatches(contexts, budget_tokens=budget_tokens):
        rows = [contexts[index] for index in indices]
        divergences = _divergences(policy, rows, new, live)
        total += math.fsum(divergences)
        # A number that is not one stays.
        worst = max([worst, *divergences]) if not any(map(math.isnan, divergences)) else math.nan
        positions += len(divergences)
        if math.isnan(worst):
            return KlToLive(math.nan, math.nan, positions)
    return KlToLive(total / positions if positions else math.nan, worst if positions else math.nan, positions)


def context_row(ids: Sequence[int], *, start: int = 1, temperature: float = 1.0) -> TrainingRow:
    """A context as a row whose positions from `start` on are all compared; the first token has none before it."""
    if not 1 <= start < len(ids):
        raise ValueError(f"start is {start} in {len(ids)} ids, expected 1 to {len(ids) - 1}")
    unknown = np.full(len(ids) - start, np.nan, dtype=np.float32)
    run = SampledRun("context", start, len(ids), unknown, temperature, None)
    return TrainingRow("context", None, np.asarray(ids, dtype=np.int32), (run,))


def _divergences(
    policy: Policy, rows: Sequence[TrainingRow], new: TrainedAdapter, live: TrainedAdapter | None
) -> list[float]:
    """The KL at each position of some rows, in their order."""
    found: list[float] = []
    with torch.no_grad():
        ours_N_H, packed = _hidden(policy, rows, new)
        theirs_N_H, _ = _hidden(policy, rows, live)
        head_V_H = cast(torch.nn.Linear, policy.network.get_output_embeddings()).weight
        temperatures_N = packed.temperatures_N.to(head_V_H.device)
        for start in range(0, len(ours_N_H), CHUNK_TOKENS):
            part = slice(start, start + CHUNK_TOKENS)
            logs, others = (_log_softmax(h[part], head_V_H, temperatures_N[part]) for h in (ours_N_H, theirs_N_H))
            found += _kl(logs, others).tolist()
    return found


def _hidden(policy: Policy, rows: Sequence[TrainingRow], adapter: TrainedAdapter | None) -> tuple[Tensor, Packed]:
    """Hidden states of the predicting tokens under one adapter. The order of the tokens is that of the rows."""
    name = None if adapter is None else adapter.name
    packed = pack([row._replace(adapter=name) for row in rows])
    seen: list[Tensor] = []

    # Any: torch's hook signature; what the body gives is transformers' own.
    def keep(_: torch.nn.Module, __: Any, output: Any) -> None:
        seen.append(output.last_hidden_state[0])

    hook = policy.network.base_model.register_forward_hook(keep)
    try:
        policy.score(packed, {} if adapter is None else {adapter.name: adapter})
    finally:
        hook.remove()
    assert len(seen) == 1, f"{len(seen)} passes of the body, expected one"
    return seen[0][packed.predicting_N.to(seen[0].device)], packed


def _log_softmax(hidden_N_H: Tensor, head_V_H: Tensor, temperatures_N: Tensor) -> Tensor:
    logits = (hidden_N_H.to(head_V_H.dtype) @ head_V_H.T).double()
    return (logits / temperatures_N[:, None]).log_softmax(1)


def _kl(logs: Tensor, others: Tensor) -> Tensor:
    """Sum of p (log p - log q); what p cannot give counts nothing."""
    shares = logs.exp()
    return torch.where(shares == 0, 0.0, shares * (logs - others)).sum(1)
