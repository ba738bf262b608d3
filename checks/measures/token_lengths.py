"""Lengths of everything a log says per token, compared with the token ids; and last tokens with mu exactly 0."""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import polars as pl

from checks.finding import EVIDENCE_LIMIT
from checks.log import Batch
from checks.measure import Tools
from checks.measures.parts import as_parts
from checks.measures.sampled_tokens import LENGTH_COLUMNS, lengths, mask_fits
from checks.ragged import ragged

SCORE_LISTS = (
    "trainer_logprobs",
    "sampling_version_logprobs",
    "entropies",
    "reference_logprobs",
    "advantages",
)
_COUNTS = ("stated_prompt_tokens", "stated_completion_tokens", "routed_experts_tokens")
_FAULT = {"session_id": pl.String, "turn": pl.Int64, "column": pl.String, "tokens": pl.Int64, "found": pl.Int64}
IMPROBABLE = -0.5
"""The trainer's log-probability below which a last token with mu exactly 0 is told though nobody says that it stops."""
_ROUNDED = 1e-4
_ROUNDED_AT_LEAST = 32


class TokenLengths:
    """Parts: `faults` (lists and counts of another length), `spans` (where version spans leave a gap or overlap),
    `last` (turns whose last token has mu exactly 0; `stop` where it is a stop token), `counts`."""

    name: ClassVar[str] = "token_lengths"
    turn_columns: ClassVar[tuple[str, ...]] = (*LENGTH_COLUMNS, "weight_versions", "finish_reason", *_COUNTS)
    score_columns: ClassVar[tuple[str, ...]] = SCORE_LISTS
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, tools: Tools) -> None:
        self._stop_ids = None if tools.tokenizer is None else sorted(tools.tokenizer.stop_ids)
        self._frames: dict[str, list[pl.DataFrame]] = {}
        names = ("compared", "faults", "spans", "stopped", "last", "nonzero", "rounded")
        self._counts: dict[str, int] = dict.fromkeys(names, 0)

    def add(self, batch: Batch) -> None:
        """Compares the lengths of one batch."""
        turns = batch.turns.select(
            "session_id",
            "turn",
            "weight_versions",
            "finish_reason",
            *_COUNTS,
            *lengths(batch.turns).get_columns(),
            row=pl.int_range(pl.len()),
            ids=pl.col("completion_ids").list.len().cast(pl.Int64),
            last_id=pl.col("completion_ids").list.get(-1, null_on_oob=True).cast(pl.Int64),
            last_mu=pl.col("sampled_logprobs").list.get(-1, null_on_oob=True).cast(pl.Float64),
            last_loss=pl.col("loss_mask").list.get(-1, null_on_oob=True).fill_null(1) == 1,
        )
        self._lists(turns.drop("weight_versions"), batch.scores)
        self._spans(turns)
        self._last(turns.drop("weight_versions"), batch.scores)
        self._rounding(batch.turns["sampled_logprobs"])

    def _lists(self, turns: pl.DataFrame, scores: pl.DataFrame) -> None:
        tokens, prompt = pl.col("tokens"), pl.col("prompt")
        counted = pl.col("stated_completion_tokens")
        routed = pl.col("routed_experts_tokens")
        whole = prompt + tokens
        self._compare(turns, "sampled_logprobs", pl.col("sampled"), pl.col("sampled") == tokens, tokens)
        self._compare(turns, "loss_mask", pl.col("mask"), mask_fits(), tokens)
        listed = turns.filter(pl.col("ids").is_not_null() | pl.col("sampled").is_not_null())
        self._compare(listed, "stated_completion_tokens", counted, counted == tokens, tokens)
        self._compare(turns, "stated_prompt_tokens", pl.col("stated_prompt_tokens"), None, prompt)
        fits = (routed == whole) | (routed == whole - 1) | (routed == tokens)
        self._compare(turns, "routed_experts_tokens", routed, fits, tokens)
        rows = turns.select("row", "session_id", "turn", "tokens")
        found = scores.select(pl.col("row").cast(pl.Int64), *(pl.col(name).list.len() for name in SCORE_LISTS))
        scored = found.join(rows, on="row", how="left", maintain_order="left")
        for name in SCORE_LISTS:
            self._compare(scored, name, pl.col(name).cast(pl.Int64), None, tokens)

    def _compare(
        self, frame: pl.DataFrame, column: str, found: pl.Expr, fits: pl.Expr | None, expected: pl.Expr
    ) -> None:
        both = found.is_not_null() & expected.is_not_null()
        known = frame.filter(both)
        self._counts["compared"] += known.height
        wrong = known.filter(~(found == expected if fits is None else fits).fill_null(False))
        if wrong.height:
            self._keep(
                "faults",
                wrong.select("session_id", "turn", column=pl.lit(column), tokens=expected, found=found).cast(_FAULT),  # pyright: ignore[reportArgumentType]
            )

    def _spans(self, turns: pl.DataFrame) -> None:
        """Spans must begin at 0, go on without gap or overlap, and end with the completion."""
        held = turns.filter(pl.col("weight_versions").list.len() > 0).drop_nulls("tokens")
        self._counts["compared"] += held.height
        spans = (
            held.select("row", "session_id", "turn", "tokens", "weight_versions")
            .explode("weight_versions")
            .unnest("weight_versions")
            .filter((pl.col("start") != pl.col("end")) | pl.col("start").is_null() | pl.col("end").is_null())
            .sort("row", "start", maintain_order=True)
            .with_columns(
                before=pl.when(pl.col("row") == pl.col("row").shift(1)).then(pl.col("end").shift(1)).otherwise(0),
                last=(pl.col("row") != pl.col("row").shift(-1)).fill_null(True),
            )
        )
        begins = pl.col("start") != pl.col("before")
        ends = pl.col("last") & (pl.col("end") != pl.col("tokens"))
        wrong = spans.filter((begins | ends | (pl.col("end") < pl.col("start"))).fill_null(True))
        first = wrong.unique("row", keep="first", maintain_order=True)
        if first.height:
            self._keep("spans", first.select("session_id", "turn", "tokens", "before", "start", "end"))

    def _last(self, turns: pl.DataFrame, scores: pl.DataFrame) -> None:
        """Turns that end with a stop token: how many, and those whose last mu is exactly 0 with loss on it."""
        stops = pl.col("finish_reason") == "stop"
        if self._stop_ids is not None:
            stops = pl.col("last_id").is_in(self._stop_ids)
        full = (pl.col("sampled") == pl.col("tokens")) & (pl.col("tokens") > 0) & mask_fits()
        trained = turns.filter((full & pl.col("last_loss")).fill_null(False))
        stopped = trained.filter(stops.fill_null(False))
        self._counts["stopped"] += stopped.height
        zero = stopped.filter(pl.col("last_mu") == 0.0)
        unknown = trained.clear()
        if self._stop_ids is None:
            unknown = trained.filter(pl.col("finish_reason").is_null() & (pl.col("last_mu") == 0.0).fill_null(False))
        stated_less = turns.filter(
            (pl.col("stated_completion_tokens") == pl.col("ids") - 1)
            & pl.col("last_loss")
            & ((pl.col("last_mu") == 0.0) | ~full).fill_null(True)
        )
        both = pl.concat([zero, stated_less, unknown]).unique("row", keep="first", maintain_order=True)
        if both.is_empty():
            return
        scored = scores.select(
            pl.col("row").cast(pl.Int64),
            trainer=pl.col("trainer_logprobs").list.get(-1, null_on_oob=True),
            own=pl.col("trainer_logprobs").list.len().cast(pl.Int64),
        ).unique("row", keep="first")
        found = both.join(scored, on="row", how="left", maintain_order="left").with_columns(
            trainer=pl.when(pl.col("own") == pl.col("tokens")).then(pl.col("trainer").cast(pl.Float64)),
            stop=pl.col("row").is_in(zero["row"].implode()),
        )
        improbable = pl.col("row").is_in(unknown["row"].implode()) & (pl.col("trainer") < IMPROBABLE)
        found = found.with_columns(zero=pl.col("stop") | improbable.fill_null(False))
        found = found.filter(pl.col("zero") | pl.col("row").is_in(stated_less["row"].implode()))
        self._counts["last"] += zero.height
        if found.is_empty():
            return
        self._keep(
            "last",
            found.select(
                "session_id",
                "turn",
                "trainer",
                "stop",
                "zero",
                token_index=pl.col("tokens") - 1,
                token_id="last_id",
                stated=pl.col("stated_completion_tokens"),
            ),
        )

    def _rounding(self, column: pl.Series) -> None:
        """Whether a sample of the log-probabilities is rounded to four decimals: 0.0 then means little."""
        values = ragged(column).values[:4096].astype(np.float64)
        values = values[np.isfinite(values) & (values != 0)]
        self._counts["nonzero"] += len(values)
        steps = values[np.abs(values) < 1e3] / _ROUNDED
        self._counts["rounded"] += int((np.abs(steps - np.round(steps)) < 0.02).sum())

    def _keep(self, name: str, frame: pl.DataFrame) -> None:
        if name != "last":
            self._counts[name] += frame.height
        held = self._frames.setdefault(name, [])
        if sum(each.height for each in held) < EVIDENCE_LIMIT:
            held.append(frame)

    def again(self) -> Collection[str]:
        """None."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never asked."""

    def frame(self) -> pl.DataFrame:
        """The parts; see the class."""
        told = self._counts["nonzero"] >= _ROUNDED_AT_LEAST
        rounded = told and self._counts["rounded"] == self._counts["nonzero"]
        counts = {name: [count] for name, count in self._counts.items() if name not in ("nonzero", "rounded")}
        parts = {"counts": pl.DataFrame(counts | {"rounded": [rounded]})}
        return as_parts(parts | {name: pl.concat(held) for name, held in self._frames.items()})
