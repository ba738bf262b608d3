"""Stated loss masks against what was sampled: tokens with loss that were not sampled, and sampled ones without."""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import polars as pl
import xxhash

from checks.finding import EVIDENCE_LIMIT
from checks.log import Batch
from checks.measure import Tools
from checks.measures.parts import as_parts
from checks.measures.sampled_tokens import LENGTH_COLUMNS, lengths, mask_fits
from checks.ragged import Array, Ragged, ragged

PLACEHOLDERS = (0.0, 1.0)
"""What formats write where a token was not sampled (slime and Polar 0.0, Atropos 1.0), beside null."""
ZERO_RUN = 4
"""Masked-in tokens with mu exactly 0 in one run of such that the trainer finds improbable, at least, and a share of"""
ZERO_SHARE = 1 / 3
"""the run at least: it is of placeholders, not probabilities."""
IMPROBABLE = -0.5
_FAULT = {
    "session_id": pl.String,
    "turn": pl.Int64,
    "kind": pl.String,
    "where": pl.String,
    "token_index": pl.Int64,
    "tokens": pl.Int64,
}


class LossMasks:
    """Parts: `faults` (one per turn, kind and place: prompt, null, zeros or completion), `counts`."""

    name: ClassVar[str] = "loss_masks"
    turn_columns: ClassVar[tuple[str, ...]] = LENGTH_COLUMNS
    score_columns: ClassVar[tuple[str, ...]] = ("trainer_logprobs",)
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, tools: Tools) -> None:
        del tools
        self._faults: list[pl.DataFrame] = []
        self._counts: dict[str, int] = dict.fromkeys(
            ("masked", "judged", "left_out", "unfit", "not_sampled", "masked_out", "turns"), 0
        )
        self._again: dict[str, list[tuple[int, int, int]]] = {}
        self._asked = False

    def add(self, batch: Batch) -> None:
        """Compares the masks of one batch."""
        stated = batch.turns["loss_mask"].is_not_null()
        self._counts["masked"] += int(stated.sum())
        if not stated.any():
            return
        turns = batch.turns.with_columns(lengths(batch.turns), row=pl.int_range(pl.len())).filter(stated)
        fits = turns.select((mask_fits() & pl.col("tokens").is_not_null()).fill_null(False)).to_series()
        self._counts["unfit"] += int((~fits).sum())
        turns = turns.filter(fits & (turns["mask"] > 0))
        if turns.is_empty():
            return
        mask = ragged(turns["loss_mask"])
        ahead = np.where(mask.lengths == turns["tokens"].to_numpy(), 0, turns["prompt"].fill_null(0).to_numpy())
        self._prompts(turns, mask, ahead)
        self._completions(turns.with_columns(ahead=pl.Series(ahead)), mask, batch.scores)

    def _prompts(self, turns: pl.DataFrame, mask: Ragged, ahead: Array) -> None:
        """Sessions with loss on prompt tokens; which of these earlier turns sampled is told in the second pass."""
        rows = np.flatnonzero(ahead > 0)
        if not len(rows):
            return
        edges = np.column_stack([mask.offsets[rows], mask.offsets[rows] + ahead[rows]]).ravel()
        loss = np.add.reduceat(np.append(mask.values != 0, False), edges, dtype=np.int64)[::2]
        self._again |= {session: [] for session in turns["session_id"].gather(rows[loss > 0]).to_list()}

    def _completions(self, turns: pl.DataFrame, mask: Ragged, scores: pl.DataFrame) -> None:
        loss = mask.values != 0
        has_loss = np.add.reduceat(loss, mask.offsets[:-1], dtype=np.int64) > 0
        self._counts["left_out"] += int((~has_loss).sum())
        told = (pl.col("sampled") == pl.col("tokens")) & (pl.col("tokens") > 0)
        usable = has_loss & turns.select(told.fill_null(False)).to_series().to_numpy()
        self._counts["judged"] += int(usable.sum())
        if not usable.any():
            return
        ahead = turns["ahead"].to_numpy()
        if not usable.all() or ahead.any():
            own = np.repeat(usable, mask.lengths)
            if ahead.any():
                own &= np.arange(len(loss)) >= np.repeat(mask.offsets[:-1] + ahead, mask.lengths)
            loss, turns = loss[own], turns.filter(usable)
        mu = ragged(turns["sampled_logprobs"])
        absent = np.isnan(mu.values)
        if absent.any():
            self._keep(turns, "not_sampled", "null", np.flatnonzero(loss & absent), mu.offsets)
        out = np.flatnonzero(~loss)
        value = mu.values[out]
        real = ~np.isnan(value) & ~np.isin(value, PLACEHOLDERS)
        self._keep(turns, "masked_out", "completion", out[real], mu.offsets)
        self._zeros(turns, scores, mu, loss)

    def _zeros(self, turns: pl.DataFrame, scores: pl.DataFrame, mu: Ragged, loss: Array) -> None:
        """Runs of exact zeros under loss that the trainer finds improbable."""
        first = scores.with_columns(pl.col("row").cast(pl.Int64)).unique("row", keep="first")
        if first.is_empty():
            return
        scored = turns.select("row", "tokens").join(first, on="row", how="left", maintain_order="left")
        old = ragged(
            scored.select(
                pl.when(pl.col("trainer_logprobs").list.len() == pl.col("tokens")).then("trainer_logprobs")
            ).to_series()
        )
        zero = np.flatnonzero(mu.values == 0.0)
        zero = zero[loss[zero]]
        row = np.searchsorted(mu.offsets, zero, side="right") - 1
        zero, row = zero[old.valid[row]], row[old.valid[row]]
        improbable = old.values[old.offsets[row] + zero - mu.offsets[row]] < IMPROBABLE
        self._keep(turns, "not_sampled", "zeros", _in_runs(zero, row, improbable), mu.offsets)

    def _keep(self, turns: pl.DataFrame, kind: str, where: str, token: Array, offsets: Array) -> None:
        if not len(token):
            return
        row = np.searchsorted(offsets, token, side="right") - 1
        rows, index, count = np.unique(row, return_index=True, return_counts=True)
        self._count(kind, len(rows), len(token))
        if sum(each.height for each in self._faults) < EVIDENCE_LIMIT:
            self._faults.append(
                turns.select("session_id", "turn")[rows]
                .with_columns(
                    kind=pl.lit(kind),
                    where=pl.lit(where),
                    token_index=pl.Series(token[index] - offsets[rows]),
                    tokens=pl.Series(count),
                )
                .cast(_FAULT)  # pyright: ignore[reportArgumentType]
            )

    def _count(self, kind: str, turns: int, tokens: int) -> None:
        self._counts["turns"] += turns
        self._counts[kind] += tokens

    def again(self) -> Collection[str]:
        """Sessions with loss on tokens of a prompt, all at once."""
        asked, self._asked = self._asked, True
        return () if asked else self._again.keys()

    def add_again(self, batch: Batch) -> None:
        """Tells the tokens of a prompt that an earlier turn of the session sampled from those that none did."""
        for row in batch.turns.select("session_id", "turn", "prompt_ids", "completion_ids", "loss_mask").iter_rows():
            session, turn, prompt, completion, mask = row
            if prompt is None or completion is None:
                continue
            ids = np.asarray(prompt + completion, dtype=np.int32)
            earlier = self._again[session]
            if mask is not None and len(mask) == len(ids) != len(completion):
                loss = np.asarray(mask[: len(prompt)]) != 0
                for start, end, digest in earlier:
                    if end <= len(prompt) and loss[start:end].any() and _digest(ids[:end]) == digest:
                        loss[start:end] = False
                if loss.any():
                    self._keep(
                        pl.DataFrame({"session_id": [session], "turn": [turn]}, schema_overrides={"turn": pl.Int64}),
                        "not_sampled",
                        "prompt",
                        np.flatnonzero(loss),
                        np.array([0, len(loss)]),
                    )
            earlier.append((len(prompt), len(ids), _digest(ids)))

    def frame(self) -> pl.DataFrame:
        """The parts; see the class."""
        parts = {"counts": pl.DataFrame({name: [count] for name, count in self._counts.items()})}
        if self._faults:
            parts["faults"] = pl.concat(self._faults)
        return as_parts(parts)


def _digest(ids: Array) -> int:
    return xxhash.xxh3_64_intdigest(ids.tobytes())


def _in_runs(token: Array, row: Array, improbable: Array) -> Array:
    """The tokens, in order, that stand within one row in a run with enough improbable ones."""
    if not len(token):
        return token
    begins = np.append(True, (np.diff(token) != 1) | (np.diff(row) != 0))
    run = np.cumsum(begins) - 1
    count = np.bincount(run, weights=improbable)
    return token[((count >= ZERO_RUN) & (count >= ZERO_SHARE * np.bincount(run)))[run]]
