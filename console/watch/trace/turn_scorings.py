"""The weights of one turn in each of its scorings, as `importance-weight` counts them, and which is shown first."""

from typing import NamedTuple

import numpy as np
import polars as pl

from checks.measures.importance_weights import WORST_W
from checks.measures.sampled_tokens import counted_tokens, lengths, mask_fits
from checks.ragged import Array, ragged
from console.watch.trace.session_turns import SessionTurns

OUTLIER = float(np.log(WORST_W))
"""|log w| beyond which a token is an outlier, as for the check's evidence."""
_MASKED = -1.0
"""How far off a token is that does not count: less than any that does."""


class TurnScorings(NamedTuple):
    """Every scoring of a turn, in the order of the log."""

    steps: tuple[int | None, ...]
    """The trainer's step."""
    log_w: tuple[Array | None, ...]
    """Of each completion token; None where the check has no ratio: a list that is missing or of another length, or a
    loss mask that does not fit."""
    counted: Array | None
    """False where a stated loss mask is 0; None where every token counts."""

    def first(self, *, step: int | None = None, token: int | None = None) -> int | None:
        """Which is shown first: of a step, if it has some, those of the step alone; of these the one in which the token
        is farthest off, and without a token, or of equals, the one in which the farthest token of the turn is."""
        named = [at for at, each in enumerate(self.steps) if step is not None and each == step]
        return max(named or range(len(self.steps)), key=lambda at: self._far(at, token), default=None)

    def worst(self) -> float | None:
        """log w farthest from 0 in any scoring, one that is no finite number first; None where there is no ratio."""
        scoring = self.first()
        log_w = None if scoring is None else self.log_w[scoring]
        if log_w is None or not len(log_w):
            return None
        return float(log_w[int(away(log_w, self.counted).argmax())])

    def outliers(self) -> int:
        """Tokens that are far off in any scoring."""
        beyond = [away(log_w, self.counted) > OUTLIER for log_w in self.log_w if log_w is not None]
        return int(np.logical_or.reduce(beyond).sum()) if beyond else 0

    def _far(self, scoring: int, token: int | None) -> tuple[float, float]:
        log_w = self.log_w[scoring]
        if log_w is None or not len(log_w):
            return -np.inf, -np.inf
        off = away(log_w, self.counted)
        asked = float(off[token]) if token is not None and 0 <= token < len(off) else _MASKED
        return asked, float(off.max())


def away(log_w: Array, counted: Array | None) -> Array:
    """|log w| of each token: infinite where it is no number, and below 0 where the token does not count."""
    off = np.where(np.isnan(log_w), np.inf, np.abs(log_w))
    return off if counted is None else np.where(counted, off, _MASKED)


def turn_scorings(session: SessionTurns, row: int) -> TurnScorings:
    """The scorings of a turn."""
    batch = session.batch(row)
    found = lengths(batch.turns)
    tokens, sampled = found["tokens"][0], found["sampled"][0]
    fits = sampled is not None and sampled == tokens and bool(found.select(mask_fits()).item())
    steps = tuple(batch.scores["trainer_step"].to_list())
    if not fits:
        return TurnScorings(steps, (None,) * len(steps), None)
    mu = ragged(batch.turns["sampled_logprobs"]).values
    scored = batch.scores.select(pl.col("trainer_logprobs"), fits=pl.col("trainer_logprobs").list.len() == sampled)
    log_w: list[Array | None] = []
    for at, same in enumerate(scored["fits"].to_list()):
        with np.errstate(invalid="ignore"):
            old = ragged(scored["trainer_logprobs"].slice(at, 1)).values if same else None
            log_w.append(None if old is None else np.subtract(old, mu, dtype=np.float64))
    mask = batch.turns["loss_mask"]
    counted = None if mask.null_count() else counted_tokens(mask, np.array([0, sampled], np.int64))
    return TurnScorings(steps, tuple(log_w), counted)
