"""One adapter's part of a log, so that the gate does not judge a candidate by another tenant's faults."""

from collections.abc import Collection, Iterator, Sequence

import polars as pl

from checks.log import Batch, Log, Source

WITNESSES = ("proof", "probe")
"""Kinds of events that say what an engine served under a version's name."""
_ADDED = ("tenant", "adapter")


class AdapterLog:
    """The turns of one tenant that one adapter or the base model sampled, and what is not said to be of another."""

    def __init__(self, log: Log, *, tenant: str, adapter: str, ended: Collection[int] = ()) -> None:
        """`ended` are the adapter's versions that were rejected or retired: what they served is no witness any more."""
        self._log = log
        self._ended = list(ended)
        self._tenant = tenant
        self._adapter = adapter

    def batches(
        self,
        columns: Sequence[str],
        score_columns: Sequence[str] = (),
        *,
        sessions: Collection[str] | None = None,
    ) -> Iterator[Batch]:
        """Its turns, with their scores."""
        asked = [*dict.fromkeys([*columns, *_ADDED])]
        own = (pl.col("tenant") == self._tenant) & (pl.col("adapter").is_null() | (pl.col("adapter") == self._adapter))
        for batch in self._log.batches(asked, score_columns, sessions=sessions):
            numbered = batch.turns.with_row_index("_before").filter(own).with_row_index("_after")
            places = numbered.select(
                row=pl.col("_before").cast(batch.scores.schema["row"]),
                _after=pl.col("_after").cast(batch.scores.schema["row"]),
            )
            scores = batch.scores.join(places, on="row", how="inner", maintain_order="left")
            dropped = [name for name in _ADDED if name not in columns]
            yield Batch(
                numbered.drop("_before", "_after", *dropped),
                scores.with_columns(row=pl.col("_after")).drop("_after"),
            )

    def table(self, name: str) -> pl.DataFrame:
        """Less the rows that name another adapter, and less the proofs of versions that have ended."""
        frame = self._log.table(name)
        if "adapter" not in frame.columns:
            return frame
        own = frame.filter(pl.col("adapter").is_null() | (pl.col("adapter") == self._adapter))
        if name != "events" or not self._ended:
            return own
        return own.filter(~(pl.col("kind").is_in(WITNESSES) & pl.col("version").is_in(self._ended)).fill_null(False))

    def source(self) -> Source:
        """Of the whole log."""
        return self._log.source()

    def turns_expected(self) -> int | None:
        """Not known beforehand."""
        return None

    def advice(self, column: str) -> str | None:
        """Of the whole log."""
        return self._log.advice(column)
