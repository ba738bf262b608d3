"""Turns with advantages that are no finite number, as division by a standard deviation of 0 gives them."""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import polars as pl

from checks.finding import EVIDENCE_LIMIT
from checks.log import Batch
from checks.measure import Tools
from checks.measures.sampled_tokens import aligned, counted_tokens, mask_fits
from checks.ragged import Array, ragged

_FOUND = {"session_id": pl.String, "turn": pl.Int64, "token_index": pl.Int64, "tokens": pl.Int64}


class Advantages:
    """One row per turn with advantages that are not finite: the first token that has one, and how many have."""

    name: ClassVar[str] = "advantages"
    turn_columns: ClassVar[tuple[str, ...]] = (
        "prompt_ids",
        "completion_ids",
        "sampled_logprobs",
        "loss_mask",
        "stated_completion_tokens",
    )
    score_columns: ClassVar[tuple[str, ...]] = ("advantages",)
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, tools: Tools) -> None:
        del tools
        self._found: list[pl.DataFrame] = []

    def add(self, batch: Batch) -> None:
        """Looks through one batch."""
        scores = batch.scores.filter(pl.col("advantages").list.len() > 0)
        if scores.is_empty():
            return
        lists = ragged(scores["advantages"])
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(np.add.reduceat(lists.values, lists.offsets[:-1], dtype=np.float64))
        if finite.all():
            return
        turns, found = aligned(batch.turns.select("session_id", "turn", *self.turn_columns), scores["row"])
        own = found.with_columns(own=pl.Series(lists.lengths, dtype=pl.Int64))
        fits = own.select((mask_fits() & (pl.col("own") == pl.col("tokens"))).fill_null(False)).to_series()
        if not fits.any():
            return
        turns, lists = turns.filter(fits), ragged(scores["advantages"].filter(fits))
        kept = counted_tokens(turns["loss_mask"], lists.offsets)
        bad = ~np.isfinite(lists.values) if kept is None else ~np.isfinite(lists.values) & kept
        self._keep(turns, np.flatnonzero(bad), lists.offsets)

    def _keep(self, turns: pl.DataFrame, token: Array, offsets: Array) -> None:
        row = np.searchsorted(offsets, token, side="right") - 1
        rows, first, count = np.unique(row, return_index=True, return_counts=True)
        if sum(each.height for each in self._found) < EVIDENCE_LIMIT:
            index, tokens = pl.Series(token[first] - offsets[rows]), pl.Series(count.astype(np.int64))
            named = turns.select("session_id", "turn")[rows]
            self._found.append(named.with_columns(token_index=index, tokens=tokens).cast(_FOUND))  # pyright: ignore[reportArgumentType]

    def again(self) -> Collection[str]:
        """None."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never asked."""

    def frame(self) -> pl.DataFrame:
        """The turns; see the class."""
        return pl.concat([pl.DataFrame(schema=_FOUND), *self._found])
