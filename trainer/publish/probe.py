"""What a proof compares: stretches of stored contexts, and the tokens on which the versions differ most.

The choice is made from the trainer's predictions alone, and treats all versions alike: no answer of an engine, and no
wish for one version, has a part in it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, zip_longest
from typing import NamedTuple, Protocol

import numpy as np

from collector.errors import UserError
from trainer.publish.judgement import Floats, Hypothesis

CANDIDATES = 24
"""Stretches that the trainer predicts before it chooses."""
LEAST_WINDOW = 8
"""Shorter stretches are not considered."""
LEAST_LOGPROB = -12.0
"""Tokens less likely than this under any version are not compared: rounding in 16 bits is largest there."""

Predictions = Mapping[Hypothesis, Floats]
"""Log-probabilities of some tokens under each version."""


class Given(NamedTuple):
    """Ids of which those from `start` on are predicted at a temperature."""

    ids: tuple[int, ...]
    start: int
    temperature: float


class Predictor(Protocol):
    """The trainer's own log-probabilities under the published weights of each version."""

    def predict(self, given: Sequence[Given]) -> list[Predictions]:
        """One for each sequence given."""
        ...


class Passage(NamedTuple):
    """A stretch of a stored context."""

    ids: tuple[int, ...]
    predicted: Predictions
    """At T = 1, of every token but the first."""
    chosen: tuple[int, ...]
    """Indices into `predicted` that are compared; index i is of token i + 1."""
    cut: int
    """Tokens of the stretch after which sampling goes on: those before the chosen token that differs most."""


class Probe(NamedTuple):
    """What is asked of an engine, and what each version would answer."""

    passages: tuple[Passage, ...]
    predictor: Predictor

    @property
    def tokens(self) -> int:
        """How many tokens are compared by scoring."""
        return sum(len(passage.chosen) for passage in self.passages)

    @property
    def has_previous(self) -> bool:
        """Whether there was a version before the new one, other than the base model."""
        return "previous" in self.passages[0].predicted


def windows(contexts: Sequence[Sequence[int]], *, length: int, count: int = CANDIDATES) -> list[tuple[int, ...]]:
    """Distinct stretches, the first of each context before the second of any."""
    cut = (
        [tuple(context[at : at + length]) for at in range(0, len(context), length)] for context in map(list, contexts)
    )
    rounds = (part for each in zip_longest(*cut) for part in each if part is not None and len(part) >= LEAST_WINDOW)
    found = list(dict.fromkeys(rounds))[:count]
    if not found:
        raise UserError(
            f"none of {len(contexts)} stored contexts has {LEAST_WINDOW} tokens; a proof needs captured turns"
        )
    return found


def choose(
    stretches: Sequence[tuple[int, ...]], predictions: Sequence[Predictions], *, tokens: int, passages: int
) -> tuple[Passage, ...]:
    """The stretches, and the tokens in them, on which every pair of versions differs most."""
    differences = [_differences(each) for each in predictions]
    largest = np.maximum.reduce([each.max(axis=1) for each in differences])
    # Each pair on its own scale: a small step from the previous version counts as much as a long way from the base.
    scaled = [each / np.where(largest > 0, largest, 1.0)[:, None] for each in differences]
    each_share = -(-tokens // passages)
    worth = [np.sort(each.sum(axis=0))[::-1][:each_share].sum() for each in scaled]
    best = sorted(range(len(stretches)), key=lambda index: -worth[index])[:passages]
    picked = _in_turn([scaled[index] for index in best], tokens)
    return tuple(
        Passage(stretches[index], predictions[index], tuple(sorted(places)), _cut(scaled[index]))
        for index, places in zip(best, picked, strict=True)
    )


def _differences(predictions: Predictions) -> Floats:
    """|difference| of each pair of versions at each token; 0 where one of them finds it too unlikely."""
    likely = np.minimum.reduce(list(predictions.values())) >= LEAST_LOGPROB
    pairs = list(combinations(predictions.values(), 2))
    return np.stack([np.abs(one - other) * likely for one, other in pairs])


def _in_turn(scaled: Sequence[Floats], tokens: int) -> list[set[int]]:
    """Places in each stretch: each pair of versions takes its next best token in turn."""
    lengths = [each.shape[1] for each in scaled]
    whole = np.concatenate(scaled, axis=1)
    # A pair has no say in tokens on which it does not differ at all.
    queues: list[Iterator[int]] = [
        iter([place for place in np.argsort(-row, kind="stable").tolist() if row[place] > 0]) for row in whole
    ]
    taken: dict[int, None] = {}
    rounds = 0
    while len(taken) < tokens and rounds < tokens:
        rounds += 1
        for queue in queues:
            place = next((place for place in queue if place not in taken), None)
            if place is not None and len(taken) < tokens:
                taken[place] = None
    starts = np.cumsum([0, *lengths])
    return [
        {int(place - start) for place in taken if start <= place < start + length}
        for start, length in zip(starts, lengths, strict=False)
    ]


def _cut(scaled: Floats) -> int:
    """The second half has the most to share with the cache, and some token to differ at."""
    half = scaled.shape[1] // 2
    return half + 1 + int(scaled[:, half:].sum(axis=0).argmax())
