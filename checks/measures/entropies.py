"""Entropy and log-probabilities of completion tokens, summed by step, and log-probabilities above zero."""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import polars as pl

from checks.finding import EVIDENCE_LIMIT
from checks.log import Batch
from checks.measure import Tools
from checks.measures.parts import as_parts
from checks.measures.sampled_tokens import LENGTH_COLUMNS, aligned, counted_tokens, lengths, mask_fits, trained_as
from checks.ragged import Array, ragged

ABOVE_ZERO = 1e-6
"""A log-probability is above zero beyond this: float32 log-softmax rounds to a few 1e-7 above at most."""
_LOGPROBS = ("trainer_logprobs", "sampling_version_logprobs", "reference_logprobs")
_TRAINER = ("trainer_step", "trainer_version")
_KEYS = ("adapter", *_TRAINER)
_SUMS = ("entropy_tokens", "entropy_sum", "sampled_tokens", "sampled_sum")


class Entropies:
    """Parts: `steps` (sums by adapter, trainer step and trainer version), `above` (turns with log-probabilities
    above 0), `counts`."""

    name: ClassVar[str] = "entropies"
    turn_columns: ClassVar[tuple[str, ...]] = (
        "adapter",
        "adapter_version",
        "temperature",
        *_TRAINER,
        *LENGTH_COLUMNS,
    )
    score_columns: ClassVar[tuple[str, ...]] = (*_KEYS, "entropies", *_LOGPROBS)
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, tools: Tools) -> None:
        del tools
        self._steps: list[pl.DataFrame] = []
        self._above: list[pl.DataFrame] = []
        self._counts: dict[str, int] = {"above": 0, "greedy": 0, "unfit": 0}

    def add(self, batch: Batch) -> None:
        """Adds up one batch."""
        turns = batch.turns
        scores = batch.scores.with_columns(pl.col("row").cast(pl.Int64))
        told = scores.select("row", *_TRAINER).filter(pl.any_horizontal(pl.col(_TRAINER).is_not_null()))
        numbered = turns.select(pl.int_range(pl.len()).alias("row"), *_KEYS)
        numbered = numbered.join(
            told.unique("row", keep="first"), on="row", how="left", maintain_order="left", suffix="_scored"
        )
        keys = numbered.select("adapter", *(pl.coalesce(f"{name}_scored", name).alias(name) for name in _TRAINER))
        greedy = (turns["temperature"] == 0).fill_null(False)
        self._counts["greedy"] += int((greedy & turns["sampled_logprobs"].is_not_null()).sum())
        found = lengths(turns)
        counted, total = self._row_sums(turns, found, turns["sampled_logprobs"], "sampled_logprobs")
        ours = ~greedy.to_numpy()
        self._keep(keys, {"sampled_tokens": counted * ours, "sampled_sum": np.where(ours, total, 0.0)})
        scored, found = aligned(turns.select("session_id", "turn", *self.turn_columns), scores["row"])
        scored = trained_as(scored, scores["adapter"]).with_columns(scores.select(_TRAINER))
        keys = scored.select(_KEYS)
        counted, total = self._row_sums(scored, found, scores["entropies"], None)
        self._keep(keys, {"entropy_tokens": counted, "entropy_sum": total})
        for name in _LOGPROBS:
            self._row_sums(scored, found, scores[name], name, add_up=False)

    def _row_sums(
        self, turns: pl.DataFrame, found: pl.DataFrame, column: pl.Series, above: str | None, *, add_up: bool = True
    ) -> tuple[Array, Array]:
        """Finite tokens and their sum per row, of lists as long as the completion and of tokens that count.

        `found` are the turns' lengths; `above` names a list of log-probabilities: what is above zero in it is kept.
        """
        counted, total = np.zeros(turns.height, dtype=np.int64), np.zeros(turns.height)
        if column.null_count() == len(column):
            return counted, total
        found = found.with_columns(own=column.list.len().cast(pl.Int64))
        fits = found.select((pl.col("own") == pl.col("tokens")) & mask_fits() & (pl.col("own") > 0))
        usable = fits.to_series().fill_null(False)
        self._counts["unfit"] += int((column.list.len() > 0).sum() or 0) - int(usable.sum())
        rows = np.flatnonzero(usable.to_numpy())
        if not len(rows):
            return counted, total
        whole = len(rows) == turns.height
        lists = ragged(column if whole else column.filter(usable))
        values, start = lists.values, lists.offsets[:-1]
        mask = turns["loss_mask"] if whole else turns["loss_mask"].filter(usable)
        if above is not None and not (np.maximum.reduceat(values, start) <= ABOVE_ZERO).all():
            self._keep_above(turns, rows, values, lists.offsets, counted_tokens(mask, lists.offsets), above)
        if not add_up:
            return counted, total
        kept = counted_tokens(mask, lists.offsets)
        counted[rows] = lists.lengths if kept is None else np.add.reduceat(kept, start, dtype=np.int64)
        with np.errstate(invalid="ignore"):
            total[rows] = np.add.reduceat(values if kept is None else values * kept, start, dtype=np.float64)
        if not np.isfinite(total).all():
            finite = np.isfinite(values) if kept is None else np.isfinite(values) & kept
            counted[rows] = np.add.reduceat(finite, start, dtype=np.int64)
            total[rows] = np.add.reduceat(np.where(finite, values, 0.0), start, dtype=np.float64)
        return counted, total

    def _keep_above(
        self,
        turns: pl.DataFrame,
        rows: Array,
        values: Array,
        offsets: Array,
        kept: Array | None,
        name: str,
    ) -> None:
        over = values > ABOVE_ZERO
        token = np.flatnonzero(over if kept is None else over & kept)
        if not len(token):
            return
        row = np.searchsorted(offsets, token, side="right") - 1
        first, index, count = np.unique(row, return_index=True, return_counts=True)
        self._counts["above"] += len(first)
        if sum(each.height for each in self._above) < EVIDENCE_LIMIT:
            self._above.append(
                turns[rows[first]]
                .select("session_id", "turn", *_KEYS)
                .with_columns(
                    token_index=pl.Series(token[index] - offsets[first]),
                    value=pl.Series(values[token[index]].astype(np.float64)),
                    tokens=pl.Series(count.astype(np.int64)),
                    column=pl.lit(name),
                )
            )

    def _keep(self, keys: pl.DataFrame, sums: dict[str, Array]) -> None:
        frame = keys.with_columns(pl.Series(name, values, dtype=pl.Float64) for name, values in sums.items())
        frame = frame.with_columns(pl.lit(0.0).alias(name) for name in _SUMS if name not in sums)
        self._steps.append(frame.group_by(_KEYS, maintain_order=True).agg(pl.col(_SUMS).sum()))
        if len(self._steps) > 256:
            self._steps = [self._by_step()]

    def _by_step(self) -> pl.DataFrame:
        return pl.concat(self._steps).group_by(_KEYS, maintain_order=True).agg(pl.col(_SUMS).sum())

    def again(self) -> Collection[str]:
        """None."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never asked."""

    def frame(self) -> pl.DataFrame:
        """The parts; see the class."""
        parts = {"counts": pl.DataFrame({name: [count] for name, count in self._counts.items()})}
        if self._steps:
            parts["steps"] = self._by_step()
        if self._above:
            parts["above"] = pl.concat(self._above)
        return as_parts(parts)
