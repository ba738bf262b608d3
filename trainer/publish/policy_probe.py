"""A probe from the trainer's policy: what new, previous and base version predict of stored contexts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from collector.errors import UserError
from trainer.engine.adapter_file import read_adapter
from trainer.engine.engine_refusal import EngineRefusal
from trainer.linear_modules import linear_modules
from trainer.lora import Pair, TrainedAdapter
from trainer.packing import pack
from trainer.policy import Policy
from trainer.publish.judgement import Hypothesis
from trainer.publish.probe import Given, Predictions, Predictor, Probe, choose, windows
from trainer.rows import SampledRun, TrainingRow

BATCH_TOKENS = 2048
"""Most tokens predicted in one forward pass."""


class PolicyPredictor:
    """Predicts under the adapters given, which must hold what the engine loads, and not finer masters."""

    def __init__(self, policy: Policy, new: TrainedAdapter, previous: TrainedAdapter | None) -> None:
        """`previous` is None where the base model was served before."""
        self._policy = policy
        self._adapters = {"new": new} if previous is None else {"new": new, "previous": previous}
        self._hypotheses: list[Hypothesis] = ["new", "base"] if previous is None else ["new", "previous", "base"]

    def predict(self, given: Sequence[Given]) -> list[Predictions]:
        """Log-probabilities of each sequence's tokens from `start` on, under each version."""
        found: list[Predictions] = []
        for batch in _batches(given, len(self._hypotheses)):
            rows = [_row(hypothesis, each) for each in batch for hypothesis in self._hypotheses]
            with torch.no_grad():
                numbers = self._policy.score(pack(rows), self._adapters).logprobs_N.double().cpu().numpy()
            parts = iter(np.split(numbers, np.cumsum([row.trained_tokens for row in rows])[:-1]))
            for _ in batch:
                found.append({hypothesis: next(parts) for hypothesis in self._hypotheses})
        return found


def make_probe(
    predictor: Predictor,
    contexts: Sequence[Sequence[int]],
    *,
    tokens: int,
    passages: int = 3,
    window_tokens: int = 32,
) -> Probe:
    """Chooses what to ask of stored contexts."""
    stretches = windows(contexts, length=window_tokens)
    predictions = predictor.predict([Given(ids, 1, 1.0) for ids in stretches])
    return Probe(choose(stretches, predictions, tokens=tokens, passages=passages), predictor)


def read_published(policy: Policy, folder: Path, name: str) -> TrainedAdapter:
    """The adapter in a version's folder: exactly what an engine loads from it."""
    modules = linear_modules(policy.network)
    shapes = {module: (linear.out_features, linear.in_features) for module, linear in modules.items()}
    try:
        pairs = read_adapter(str(folder), shapes)
    except EngineRefusal as refusal:
        raise UserError(str(refusal)) from refusal
    rank, scaling = next((pair.down_R_I.shape[0], pair.scaling) for pair in pairs.values())
    placed = {
        module: Pair(
            *(
                torch.nn.Parameter(half.to(modules[module].weight.device, torch.float32), requires_grad=False)
                for half in (pair.down_R_I, pair.up_O_R)
            )
        )
        for module, pair in pairs.items()
    }
    return TrainedAdapter(name, rank, scaling * rank, placed)


def _batches(given: Sequence[Given], copies: int) -> list[list[Given]]:
    batches: list[list[Given]] = []
    room = 0
    for each in given:
        needed = len(each.ids) * copies
        if not batches or needed > room:
            batches.append([])
            room = BATCH_TOKENS
        batches[-1].append(each)
        room -= needed
    return batches


def _row(hypothesis: Hypothesis, given: Given) -> TrainingRow:
    ids = np.array(given.ids, dtype=np.int32)
    unknown = np.zeros(len(ids) - given.start, dtype=np.float32)
    run = SampledRun("probe", given.start, len(ids), unknown, given.temperature, None)
    return TrainingRow("probe", None if hypothesis == "base" else hypothesis, ids, (run,))
