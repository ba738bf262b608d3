"""The scored completion tokens of a batch of turns as one flat row: what the engine and the trainer made of each."""

from typing import NamedTuple

import numpy as np

from checks.ragged import Array


class ScoredTokens(NamedTuple):
    """Log-probabilities of the tokens that count, turn after turn."""

    mu: Array
    """The engine's."""
    old: Array
    """The trainer's, pi_old."""
    offsets: Array
    """int64, where each turn's completion begins when all tokens are counted, and where the last ends."""
    where: Array | None = None
    """int64, the place of each token among all tokens, for `offsets`; None where all count."""

    def log_w(self, at: slice | Array) -> Array:
        """log w = log pi_old - log mu of some tokens, in float64."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.subtract(self.old[at], self.mu[at], dtype=np.float64)

    def place(self, token: Array) -> Array:
        """Tokens of this row as tokens among all."""
        return token if self.where is None else self.where[token]

    def only(self, kept: Array) -> "ScoredTokens":
        """The tokens for which `kept`, a flag per token among all, is True."""
        assert self.where is None
        where = np.flatnonzero(kept)
        return ScoredTokens(self.mu[where], self.old[where], self.offsets, where)
