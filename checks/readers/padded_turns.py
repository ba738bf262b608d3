"""Rows of a padded training batch as turns: padding on either side taken off, one turn per sampled run."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from checks.readers.merged_row import turns_of
from checks.readers.pickle_values import Array, RefusedPickle
from checks.rows import TurnRow


class PaddedRow(NamedTuple):
    """One row of a batch."""

    tokens: Array
    """All token ids, padding among them."""
    present: Array
    """Whether each is no padding."""
    mask: Array
    """The loss mask: of all tokens, of all but the first, or of the last ones, those of the response."""
    sampled_logprobs: Array | None
    """As many as the mask, or of another such width."""
    scores: Mapping[str, Array | None]
    """Fields of a turn, each of such a width."""
    response: Array | None = None
    """Which tokens are of the response, of such a width: all of them are taken where the mask is 0 everywhere."""


def padded_turns(row: PaddedRow, *, session_id: str, **fields: Any) -> Iterator[TurnRow]:
    """The turns of a row. Narrower arrays belong to the last tokens, which is also what a shift of labels by one means.

    What was sampled is what the mask says, and where there are log-probabilities also every token with one that is
    not 0.0, the value of padding and of tokens that the policy did not sample.
    """
    keep = np.asarray(row.present) != 0
    if keep.shape != row.tokens.shape:
        raise RefusedPickle(f"{keep.size} flags of padding for {row.tokens.size} tokens, expected as many")
    mask = _widened("mask", row.mask, keep.size) != 0
    logprobs = None if row.sampled_logprobs is None else _widened("logprobs", row.sampled_logprobs, keep.size)
    sampled = (mask if logprobs is None else mask | (logprobs != 0.0)) & keep
    if not (mask & keep).any():
        fields |= {"trainable": False, "untrainable_reason": "the loss mask is 0 everywhere"}
        if row.response is not None:
            sampled = (_widened("response", row.response, keep.size) != 0) & keep
    per_token: dict[str, list[Any] | None] = {
        "loss_mask": mask[keep].astype(np.int8).tolist(),
        "sampled_logprobs": None if logprobs is None else logprobs[keep].astype(np.float64).tolist(),
    }
    for name, values in row.scores.items():
        if values is not None:
            per_token[name] = _widened(name, values, keep.size)[keep].astype(np.float64).tolist()
    yield from turns_of(
        row.tokens[keep].astype(np.int64).tolist(),
        sampled[keep].tolist(),
        session_id=session_id,
        per_token=per_token,
        **fields,
    )


def _widened(name: str, values: Array, width: int) -> Array:
    if values.ndim != 1 or values.size > width:
        raise RefusedPickle(f"{name} of shape {values.shape} for {width} tokens")
    if values.size == width:
        return values
    return np.concatenate([np.zeros(width - values.size, dtype=values.dtype), values])
