"""Which version sampled the completion tokens and which trained on them, counted."""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import polars as pl

from checks.lag import KEYS
from checks.log import Batch
from checks.measure import Tools
from checks.measures.parts import as_parts
from checks.measures.sampled_tokens import (
    LENGTH_COLUMNS,
    UNKNOWN,
    VERSION_COLUMNS,
    Pieces,
    aligned,
    counted_tokens,
    mask_fits,
    pieces,
    trained_as,
)
from checks.ragged import Array

PER_CELL = 10_000
"""Most turns of each pair of versions that are kept by name; all are counted."""
_COMPACT_AT = 200_000
_TRAINER = ("trainer_version", "trainer_step")


class TokenLags:
    """Parts: `cells` (tokens and turns by `KEYS`), `turns` (the first token of each version in a turn, by `KEYS`;
    the first `PER_CELL` of a cell), `counts`."""

    name: ClassVar[str] = "token_lags"
    turn_columns: ClassVar[tuple[str, ...]] = ("adapter", *LENGTH_COLUMNS, *VERSION_COLUMNS, *_TRAINER)
    score_columns: ClassVar[tuple[str, ...]] = ("adapter", *_TRAINER)
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, tools: Tools) -> None:
        del tools
        self._turns: list[pl.DataFrame] = []
        self._cells: list[pl.DataFrame] = []
        self._counts: dict[str, int] = dict.fromkeys(("versioned", "mixed", "trained"), 0)

    def add(self, batch: Batch) -> None:
        """Counts one batch."""
        labels = pl.col("weight_versions").list.eval(pl.element().struct.field("version")).list.n_unique()
        versions = batch.turns.select(
            known=pl.col("adapter_version").is_not_null() | (pl.col("weight_versions").list.len() > 0),
            mixed=labels > 1,
        )
        self._counts["versioned"] += int(versions["known"].sum() or 0)
        self._counts["mixed"] += int(versions["mixed"].sum() or 0)
        trained = _trained(batch)
        self._counts["trained"] += trained.height
        if trained.is_empty():
            return
        turns, found = aligned(batch.turns.select("session_id", "turn", *self.turn_columns), trained["row"])
        self._fold(trained_as(turns, trained["adapter"]), found, trained)

    def _fold(self, turns: pl.DataFrame, found: pl.DataFrame, trained: pl.DataFrame) -> None:
        tokens = found["tokens"].fill_null(0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)
        cut = pieces(turns, offsets)
        if not len(cut.start):
            return
        mask = turns.select(pl.when(found.select(mask_fits()).to_series()).then(pl.col("loss_mask"))).to_series()
        known = cut.version != UNKNOWN
        piece = pl.DataFrame({"sampling_version": cut.version, "token_index": cut.position}).with_columns(
            *turns.select("session_id", "turn", "adapter")[cut.row].get_columns(),
            *trained.select(_TRAINER)[cut.row].get_columns(),
            tokens=pl.Series(_counted(mask, tokens, cut)),
        )
        piece = piece.filter(pl.Series(known) & (pl.col("tokens") > 0))
        self._keep(
            self._cells, piece.group_by(KEYS, maintain_order=True).agg(pl.col("tokens").sum(), turns=pl.len()), 0
        )
        self._keep(self._turns, piece.drop("tokens"), PER_CELL)

    def _keep(self, held: list[pl.DataFrame], frame: pl.DataFrame, per_cell: int) -> None:
        held.append(frame)
        if sum(each.height for each in held) > _COMPACT_AT + 2 * held[0].height:
            held[:] = [_compacted(held, per_cell)]

    def again(self) -> Collection[str]:
        """None."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never asked."""

    def frame(self) -> pl.DataFrame:
        """The parts; see the class."""
        parts = {"counts": pl.DataFrame({name: [count] for name, count in self._counts.items()})}
        if self._cells:
            parts |= {"cells": _compacted(self._cells, 0), "turns": _compacted(self._turns, PER_CELL)}
        return as_parts(parts)


def _trained(batch: Batch) -> pl.DataFrame:
    """`row` and what the trainer stood at, of every score, or of the turn itself where it has no score."""
    told = pl.any_horizontal(pl.col(_TRAINER).is_not_null())
    scored = batch.scores.filter(told).select(pl.col("row").cast(pl.Int64), "adapter", *_TRAINER)
    own = batch.turns.select(pl.int_range(pl.len()).alias("row"), "adapter", *_TRAINER).filter(told)
    return pl.concat([scored, own.join(scored, on="row", how="anti", maintain_order="left")])


def _counted(mask: pl.Series, tokens: Array, cut: Pieces) -> Array:
    """Tokens of each piece that count, of masks that fit. Only the tokens of turns with a mask are laid out: how many
    the others have may be no more than a number that the source states."""
    whole = np.diff(cut.start, append=int(tokens.sum()))
    masked = mask.is_not_null().to_numpy()
    of_masked = masked[cut.row]
    offsets = np.concatenate([[0], np.cumsum(np.where(masked, tokens, 0))])
    kept = counted_tokens(mask, offsets)
    if kept is None:
        return whole
    before = np.concatenate([[0], np.cumsum(kept)])
    begin = np.where(of_masked, offsets[cut.row] + cut.position, 0)
    end = begin + np.where(of_masked, whole, 0)
    return np.where(of_masked, before[end] - before[begin], whole)


def _compacted(held: list[pl.DataFrame], per_cell: int) -> pl.DataFrame:
    frame = pl.concat(held)
    if per_cell:
        return frame.filter(pl.int_range(pl.len()).over(KEYS) < per_cell)
    return frame.group_by(KEYS, maintain_order=True).agg(pl.col("tokens", "turns").sum())
