"""The turns of a store whose tokens were not read yet, or were scored since, with their new scores."""

# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false
# (pyarrow carries no types)

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from checks.log import Unreadable
from checks.readers.tables import Origin, frame_of_arrow
from collector.store.snapshot import Snapshot

_KEYS = ("turn_id", "writer", "seq")
_EMPTY = pl.DataFrame(schema={"turn_id": pl.String, "writer": pl.String, "seq": pl.Int64})


class Known(NamedTuple):
    """Which rows were read by now."""

    turns: pl.DataFrame = _EMPTY.with_columns(scored=pl.lit(None, pl.Boolean))
    """`turn_id, writer, seq, scored` of every turn."""
    next_turn: Mapping[str, int] = {}
    next_score: Mapping[str, int] = {}
    """Writer to the first seq that was not read."""


class Portion:
    """What is new in a snapshot, as tables of a native log: turns in the order of the store."""

    def __init__(self, snapshot: Snapshot, known: Known) -> None:
        self._snapshot = snapshot
        new_turns = _keys(snapshot, "turns", known.next_turn)
        new_scores = _keys(snapshot, "scores", known.next_score)
        named = new_scores.select("turn_id").unique()
        new = new_turns.join(named.with_columns(scored=True), on="turn_id", how="left", maintain_order="left")
        new = new.with_columns(pl.col("scored").fill_null(False))
        again = known.turns.join(named, on="turn_id", how="semi", maintain_order="left")
        self.late: dict[str, bool] = dict(again.select("turn_id", "scored").rows())
        """Turns that were read before and scored since, and whether they had been scored before."""
        self.height = new.height + again.height
        wanted = pl.concat([new, again])
        self._seqs = {str(writer): pa.array(rows["seq"]) for (writer,), rows in wanted.group_by("writer")}
        first = dict(wanted.group_by("writer").agg(pl.col("seq").min()).rows())
        self._since = {"turns": {**known.next_turn, **first}, "scores": dict(known.next_score)}
        self._masked = any(
            batch["loss_mask"].null_count < batch.num_rows for batch in self.batches("turns", ["loss_mask"])
        )
        scored = pl.col("scored") | pl.col("turn_id").is_in(named["turn_id"].implode())
        self.known = Known(
            pl.concat([known.turns, new]).with_columns(scored=scored),
            {**known.next_turn, **_past(new_turns)},
            {**known.next_score, **_past(new_scores)},
        )
        """What is known once this was read."""

    @property
    def origin(self) -> Origin:
        """A part of the store."""
        return Origin("store", "turns that are new or newly scored", 0)

    def columns(self, table: str) -> Sequence[str]:
        """Those of the record; prompts, which only a mask over them is measured by, where there is a mask."""
        if table not in ("turns", "scores"):
            return ()
        names = self._snapshot.schema(table).names
        return names if self._masked else [name for name in names if name != "prompt_ids"]

    def batches(
        self, table: str, columns: Sequence[str], *, sessions: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The new rows, writer by writer in the order of seq."""
        del sessions
        keyed = [*dict.fromkeys([*columns, "writer", "seq"])]
        for batch in self._snapshot.batches(table, columns=keyed, since=self._since[table]):
            if not batch.num_rows:
                continue
            if table == "turns":
                wanted = self._seqs.get(batch["writer"][0].as_py())
                if wanted is None:
                    continue
                batch = batch.filter(pc.is_in(batch["seq"], value_set=wanted))
            yield batch.select(list(columns))

    def rows(self, table: str) -> int | None:
        """Counted beforehand."""
        return self.height if table == "turns" else None

    def unreadable(self) -> Sequence[Unreadable]:
        """Told by whoever reads the narrow tables."""
        return ()


def _keys(snapshot: Snapshot, table: str, since: Mapping[str, int]) -> pl.DataFrame:
    batches = snapshot.batches(table, columns=[*_KEYS], since=since)
    return pl.concat([_EMPTY, *(frame_of_arrow(batch) for batch in batches)])


def _past(rows: pl.DataFrame) -> dict[str, int]:
    return dict(rows.group_by("writer").agg(pl.col("seq").max() + 1).rows())
