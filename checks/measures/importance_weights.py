"""Importance weights w = pi_old/mu of every scored completion token, folded by versions, setting and position."""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import polars as pl

from checks.finding import EVIDENCE_LIMIT
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
from checks.measures.scored_tokens import ScoredTokens
from checks.measures.weight_causes import weight_causes
from checks.measures.weight_sums import histogram, piece_sums, worst_tokens
from checks.ragged import Array, ragged

POSITIONS = (0, 16, 64, 256, 1024, 4096)
"""First position of each bucket of positions."""
SETTING = ("temperature", "logprob_mode", "top_p")
"""What a turn was sampled with that may explain its weights."""
CELL = ("adapter", "sampling_version", "trainer_version", "trainer_step", *SETTING)
"""What tokens are folded by."""
WORST_W = 2.0
"""A turn is kept as a candidate for evidence when a token's w is above this or below its inverse,"""
WORST_MEAN = 0.03
"""or when its mean |log w| is above this; and always the few worst of each batch."""
_ALWAYS = 16
_COMPACT_AT = 200_000


class ImportanceWeights:
    """Parts: `cells` (sums by `CELL`), `positions`, `histogram` (by `CELL` and bin), `turns` (candidates for
    evidence, worst first), `causes` (by `CELL`, of some candidates), `bad` (tokens that are not finite), `counts`."""

    name: ClassVar[str] = "importance_weights"
    turn_columns: ClassVar[tuple[str, ...]] = ("adapter", *LENGTH_COLUMNS, *VERSION_COLUMNS, *SETTING)
    score_columns: ClassVar[tuple[str, ...]] = (
        "adapter",
        "trainer_step",
        "trainer_version",
        "trainer_logprobs",
        "sampling_version_logprobs",
        "reference_logprobs",
    )
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, tools: Tools) -> None:
        del tools
        self._frames: dict[str, list[pl.DataFrame]] = {}
        self._counts: dict[str, int] = dict.fromkeys(
            ("sampled", "scored", "mismatched", "unsampled", "not_finite", "candidates"), 0
        )

    def add(self, batch: Batch) -> None:
        """Folds the scored turns of one batch."""
        self._counts["sampled"] += int(batch.turns["sampled_logprobs"].is_not_null().sum())
        scores = batch.scores
        if scores["trainer_logprobs"].null_count():
            scores = scores.filter(pl.col("trainer_logprobs").is_not_null())
        if scores.is_empty():
            return
        turns, found = aligned(batch.turns.select("session_id", "turn", *self.turn_columns), scores["row"])
        fitting = self._fitting(found, scores)
        if not fitting.all():
            turns, scores = turns.filter(fitting), scores.filter(fitting)
        if turns.height:
            self._fold(trained_as(turns, scores["adapter"]), scores)

    def _fitting(self, found: pl.DataFrame, scores: pl.DataFrame) -> pl.Series:
        """Which scored turns have lists of one length; the others have no ratio and are counted."""
        found = found.with_columns(scored=scores["trainer_logprobs"].list.len().cast(pl.Int64))
        found = found.select(
            has=pl.col("sampled").is_not_null(),
            fits=(pl.col("sampled") == pl.col("tokens")) & (pl.col("scored") == pl.col("tokens")) & mask_fits(),
        )
        self._counts["scored"] += found.height
        self._counts["unsampled"] += found.height - int(found["has"].sum())
        self._counts["mismatched"] += int((found["has"] & ~found["fits"].fill_null(False)).sum())
        return found["has"] & found["fits"].fill_null(False)

    def _fold(self, turns: pl.DataFrame, scores: pl.DataFrame) -> None:
        mu = ragged(turns["sampled_logprobs"])
        every = ScoredTokens(mu.values, ragged(scores["trainer_logprobs"]).values, mu.offsets)
        whole = pieces(turns, mu.offsets, POSITIONS[1:])
        kept = counted_tokens(turns["loss_mask"], mu.offsets)
        tokens, cut, sums = _summed(every, whole, kept)
        if not np.isfinite(sums["sum_d"]).all():
            stood = scores.select("trainer_step", "trainer_version")
            tokens, cut, sums = _summed(every, whole, self._finite(turns, stood, every, kept))
        if not len(cut.start):
            return
        self._keep("positions", _by_position(sums, cut.position))
        segments, first = _segments(sums, cut, _keys(turns, scores, cut))
        start = cut.start[first]
        self._keep("cells", _by_cell(segments))
        self._keep("histogram", histogram(tokens, start, segments, CELL))
        candidates = _candidates(segments)
        segment = candidates["segment"].to_numpy()
        begin, end = start[segment], np.append(start[1:], len(tokens.mu))[segment]
        self._locate(turns, candidates, tokens, worst_tokens(tokens, begin, end))
        chosen = candidates.with_row_index("index").filter(pl.col("sum_abs") > WORST_MEAN * pl.col("n"))
        if chosen.height:
            spans = list(zip(begin.tolist(), end.tolist(), strict=True))
            self._keep("causes", weight_causes(chosen, scores, tokens, spans, CELL))

    def _finite(self, turns: pl.DataFrame, stood: pl.DataFrame, tokens: ScoredTokens, kept: Array | None) -> Array:
        """Which tokens have a log w that is a finite number and count; keeps where those are that have none."""
        finite = np.isfinite(tokens.log_w(slice(None)))
        bad = np.flatnonzero(~finite if kept is None else ~finite & kept)
        row = np.searchsorted(tokens.offsets, bad, side="right") - 1
        first, index, count = np.unique(row, return_index=True, return_counts=True)
        self._counts["not_finite"] += len(bad)
        at = bad[index]
        self._keep(
            "bad",
            turns.select("session_id", "turn", "adapter")[first].with_columns(
                *stood[first].get_columns(),
                token_index=pl.Series(at - tokens.offsets[first]),
                tokens=pl.Series(count.astype(np.int64)),
                mu=pl.Series(tokens.mu[at].astype(np.float64)),
                old=pl.Series(tokens.old[at].astype(np.float64)),
            ),
        )
        return finite if kept is None else kept & finite

    def _locate(self, turns: pl.DataFrame, candidates: pl.DataFrame, tokens: ScoredTokens, worst: Array) -> None:
        """Keeps each candidate with its worst token."""
        row = candidates["row"].to_numpy()
        self._counts["candidates"] += candidates.height
        self._keep(
            "turns",
            candidates.with_columns(
                *turns.select("session_id", "turn")[row].get_columns(),
                token_index=pl.Series(tokens.place(worst) - tokens.offsets[row]),
                log_w=pl.Series(tokens.log_w(worst)),
                mu=pl.Series(tokens.mu[worst].astype(np.float64)),
            ).drop("segment", "row"),
        )

    def _keep(self, name: str, frame: pl.DataFrame) -> None:
        held = self._frames.setdefault(name, [])
        held.append(frame)
        if sum(each.height for each in held) > _COMPACT_AT + 2 * held[0].height:
            self._frames[name] = [self._whole(name)]

    def _whole(self, name: str) -> pl.DataFrame:
        held = self._frames.get(name)
        frame = pl.concat(held) if held else pl.DataFrame()
        if name == "turns" and held:
            return frame.sort(pl.col("log_w").abs(), descending=True, maintain_order=True).head(EVIDENCE_LIMIT)
        if name == "bad" and held:
            return frame.head(EVIDENCE_LIMIT)
        keys = {"cells": CELL, "positions": ("position",), "histogram": (*CELL, "bin"), "causes": CELL}.get(name)
        return frame if keys is None or not held else _added_up(frame, keys)

    def again(self) -> Collection[str]:
        """None."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never asked."""

    def frame(self) -> pl.DataFrame:
        """The parts; see the class."""
        counts = pl.DataFrame({name: [count] for name, count in self._counts.items()})
        names = ("cells", "positions", "histogram", "turns", "causes", "bad")
        parts = {name: self._whole(name) for name in names}
        return as_parts({"counts": counts, **{name: frame for name, frame in parts.items() if frame.width}})


def _summed(every: ScoredTokens, cut: Pieces, kept: Array | None) -> tuple[ScoredTokens, Pieces, dict[str, Array]]:
    """The tokens that count, the pieces with any of them, and their sums."""
    if kept is None:
        return every, cut, piece_sums(every, cut.start)
    tokens = every.only(kept)
    assert tokens.where is not None
    start = np.searchsorted(tokens.where, cut.start)
    full = np.diff(start, append=len(tokens.mu)) > 0
    cut = Pieces(start[full], *(values[full] for values in cut[1:]))
    return tokens, cut, piece_sums(tokens, cut.start)


def _keys(turns: pl.DataFrame, scores: pl.DataFrame, cut: Pieces) -> pl.DataFrame:
    """The cell of each piece."""
    version = pl.Series("sampling_version", cut.version).replace(UNKNOWN, None)
    own = turns.select("adapter", *SETTING).with_columns(scores["trainer_version"], scores["trainer_step"])
    return own[cut.row].with_columns(version).select(CELL)


def _by_position(sums: dict[str, Array], position: Array) -> pl.DataFrame:
    bucket = np.searchsorted(np.asarray(POSITIONS), position, side="right") - 1
    frame = pl.DataFrame({name: sums[name] for name in ("n", "sum_d", "min_d", "max_d")})
    return _added_up(frame.with_columns(position=pl.Series(bucket.astype(np.int64))), ("position",))


def _segments(sums: dict[str, Array], cut: Pieces, keys: pl.DataFrame) -> tuple[pl.DataFrame, Array]:
    """Pieces of one turn and version added up, with their cell; and the first piece of each."""
    first = np.flatnonzero(np.append(True, (np.diff(cut.row) != 0) | (np.diff(cut.version) != 0)))
    added = {
        name: (np.minimum if name == "min_d" else np.maximum if name == "max_d" else np.add).reduceat(values, first)
        for name, values in sums.items()
    }
    columns = {"row": cut.row[first], **added}
    return keys[first].with_columns(pl.Series(name, values) for name, values in columns.items()), first


def _by_cell(segments: pl.DataFrame) -> pl.DataFrame:
    n, absolute = pl.col("n").cast(pl.Float64), pl.col("sum_abs")
    squared = segments.with_columns(turns=pl.lit(1, pl.Int64), aa=absolute**2, an=absolute * n, nn=n**2)
    return _added_up(squared.drop("row"), CELL)


def _candidates(segments: pl.DataFrame) -> pl.DataFrame:
    """Segments that may become evidence."""
    worst = pl.max_horizontal(pl.col("max_d"), -pl.col("min_d"))
    few = worst.rank("ordinal", descending=True) <= _ALWAYS
    far = (worst > np.log(WORST_W)) | (pl.col("sum_abs") > WORST_MEAN * pl.col("n"))
    wanted = ["n", "sum_d", "sum_abs", "confident"]
    return segments.with_row_index("segment").filter(far | few).select("segment", "row", *CELL, *wanted)


def _added_up(frame: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Rows of equal keys added up; minima and maxima stay what they are."""
    added = [
        pl.col(name).min() if name == "min_d" else pl.col(name).max() if name == "max_d" else pl.col(name).sum()
        for name in frame.columns
        if name not in keys
    ]
    return frame.group_by(keys, maintain_order=True).agg(added)
