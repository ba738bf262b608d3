"""Sampled completions decoded to text and encoded again: how many change, and where each one first does."""

from typing import Any, ClassVar

import polars as pl

from checks.finding import EVIDENCE_LIMIT
from checks.log import Batch
from checks.measure import Tools
from checks.measures.reencoding import Difference, Reencoder

FAULT = pl.Struct(
    {
        "session_id": pl.String,
        "turn": pl.Int64,
        "token_index": pl.Int64,
        "kind": pl.String,
        "cut": pl.Boolean,
        "sampled_id": pl.Int64,
        "encoded_id": pl.Int64,
        "sampled": pl.List(pl.String),
        "encoded": pl.List(pl.String),
    }
)
"""A completion that changes. `cut`: only because the length limit ended it within a character."""
SCHEMA = {"turns": pl.Int64, "tokens": pl.Int64, "changed": pl.Int64, "cut": pl.Int64, "faults": pl.List(FAULT)}
"""One row: turns and tokens looked at, completions that change, those cut within a character beside them, and each."""


class RoundTrip:
    """Every completion once; the same ids in one batch are worked out once."""

    name: ClassVar[str] = "round_trip"
    turn_columns: ClassVar[tuple[str, ...]] = ("prompt_ids", "completion_ids", "finish_reason")
    score_columns: ClassVar[tuple[str, ...]] = ()
    needs_tokenizer: ClassVar[bool] = True

    def __init__(self, tools: Tools) -> None:
        assert tools.tokenizer is not None, "needs_tokenizer"
        self._tokenizer = tools.tokenizer
        self._reencoder = Reencoder(tools.tokenizer)
        self._counts = dict.fromkeys(("turns", "tokens", "changed", "cut"), 0)
        self._faults: list[dict[str, Any]] = []

    def add(self, batch: Batch) -> None:
        """Decodes and encodes what was sampled."""
        lengths = pl.col("completion_ids").list.len()
        sampled = batch.turns.filter(lengths > 0)
        if sampled.is_empty():
            return
        self._counts["turns"] += sampled.height
        self._counts["tokens"] += int(sampled.select(lengths.cast(pl.Int64).sum()).item())
        once = sampled.select("completion_ids", prompt_end=pl.col("prompt_ids").list.tail(64))
        # A completion alone nearly always decides: what it follows is looked at for one of the same ids only.
        once = once.unique("completion_ids", maintain_order=True)
        completions: list[list[int]] = once["completion_ids"].to_list()
        found = self._reencoder.differences(completions, once["prompt_end"].to_list())
        changed = {tuple(ids): difference for ids, difference in zip(completions, found, strict=True) if difference}
        if not changed:
            return
        for row in sampled.select("session_id", "turn", "finish_reason", "completion_ids").iter_rows():
            difference = changed.get(tuple(row[3]))
            if difference is not None:
                self._keep(row[0], row[1], row[2] == "length", difference)

    def again(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never asked for."""

    def frame(self) -> pl.DataFrame:
        """One row, columns of `SCHEMA`."""
        return pl.DataFrame({**self._counts, "faults": [self._faults]}, schema=SCHEMA)

    def _keep(self, session: str, turn: int, by_length: bool, difference: Difference) -> None:
        cut = by_length and difference.at_cut_end
        self._counts["cut" if cut else "changed"] += 1
        if len(self._faults) >= EVIDENCE_LIMIT:
            return
        self._faults.append(
            {
                "session_id": session,
                "turn": turn,
                "token_index": difference.place,
                "kind": difference.kind,
                "cut": cut,
                "sampled_id": next(iter(difference.sampled), None),
                "encoded_id": next(iter(difference.encoded), None),
                "sampled": [self._text(each) for each in difference.sampled],
                "encoded": [self._text(each) for each in difference.encoded],
            }
        )

    def _text(self, token_id: int) -> str:
        return self._tokenizer.text_of(token_id) if token_id >= 0 else f"[{token_id}]"
