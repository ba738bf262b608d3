"""Scores brought to their turns by `turn_id`, in bounded memory whatever order the two tables are in."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# (pyarrow carries no types)

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from checks.ragged import Array
from checks.readers.tables import Tables, frame_of_arrow

_MOST_PARTS = 256
_STEP = 1_024
_NO_TURN = np.iinfo(np.int64).max


class ScoreJoin:
    """Where each row of `scores` belongs: found once from the two columns of ids, used at each pass."""

    def __init__(self, tables: Tables, *, held_bytes: int = 256 * 2**20, part_bytes: int = 64 * 2**20) -> None:
        """At most `held_bytes` of scores wait for their turns in memory; files hold about `part_bytes` each."""
        self._tables = tables
        self._of_row = _turn_of_each_score(tables)
        self._held_bytes = held_bytes
        self._part_bytes = part_bytes

    @property
    def unmatched(self) -> int:
        """Scores of turns that the log does not hold."""
        return int((self._of_row == _NO_TURN).sum())

    def pass_over(self, columns: Sequence[str]) -> "ScorePass":
        """Begins a pass: the scores in the order of their turns."""
        return ScorePass(self._tables, self._of_row, columns, self._held_bytes, self._part_bytes)


class ScorePass:
    """Gives the scores of one stretch of turns after the other.

    Scores that come nearly in the order of the turns are read along with them. Where too many would have to be held
    until their turn comes, they are first dealt out into files, one for each stretch of turns.
    """

    def __init__(self, tables: Tables, of_row: Array, columns: Sequence[str], held_bytes: int, part_bytes: int) -> None:
        self._tables = tables
        self._held_bytes = held_bytes
        self._part_bytes = part_bytes
        self._columns = list(dict.fromkeys(("turn_id", *columns)))
        self._of_row = of_row
        self._needed_before = np.minimum.accumulate(of_row[::-1])[::-1]
        self._batches = self._read()
        self._read_rows = 0
        self._held: list[pl.DataFrame] = []
        self._parts: _Parts | None = None
        self._begun = False

    def between(self, start: int, end: int) -> pl.DataFrame | None:
        """Scores of the turns `start` to `end` (exclusive), with `row` counted from `start`; None for none."""
        if not self._begun:
            self._begin()
        held = self._read_along(end) if self._parts is None else self._parts.between(start, end)
        found = [part for part in held if part.height]
        if not found:
            return None
        scores = pl.concat(found).sort("row", maintain_order=True)
        return scores.with_columns((pl.col("row") - start).cast(pl.UInt32))

    def close(self) -> None:
        """Removes the files, where there are any."""
        if self._parts is not None:
            self._parts.close()

    def _read(self) -> Iterator[pl.DataFrame]:
        """Rows of scores with the number of their turn in `row`; those without one are left out."""
        start = 0
        for batch in self._tables.batches("scores", self._columns):
            frame = frame_of_arrow(batch)
            of_turn = self._of_row[start : start + frame.height]
            start += frame.height
            yield frame.with_columns(row=pl.Series(of_turn))

    def _begin(self) -> None:
        self._begun = True
        first = next(self._batches, None)
        if first is None:
            return
        row_bytes = first.estimated_size() / max(1, first.height)
        if self._most_held() * row_bytes > self._held_bytes:
            total = row_bytes * len(self._of_row)
            matched = self._of_row[self._of_row != _NO_TURN]
            parts = int(min(_MOST_PARTS, total // self._part_bytes + 1))
            self._parts = _Parts(int(matched.max()) + 1, parts)
            self._parts.deal(_first_and(first, self._batches))
        else:
            self._take(first)

    def _most_held(self) -> int:
        """The most rows that would wait for their turn at once."""
        in_order = np.sort(self._of_row)
        ends = in_order[::_STEP]
        return int((np.searchsorted(self._needed_before, ends) - np.searchsorted(in_order, ends)).max(initial=0))

    def _take(self, frame: pl.DataFrame) -> None:
        self._read_rows += frame.height
        self._held.append(frame.filter(pl.col("row") != _NO_TURN))

    def _read_along(self, end: int) -> list[pl.DataFrame]:
        needed = int(np.searchsorted(self._needed_before, end))
        while self._read_rows < needed:
            self._take(next(self._batches))
        ready = [frame.filter(pl.col("row") < end) for frame in self._held]
        self._held = [left for frame in self._held if (left := frame.filter(pl.col("row") >= end)).height]
        return ready


class _Parts:
    """Rows dealt out into files by the number of their turn."""

    def __init__(self, turns: int, count: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="roundhouse-scores-")
        self._size = -(-turns // count)
        self._loaded: dict[int, pl.DataFrame] = {}

    def deal(self, frames: Iterator[pl.DataFrame]) -> None:
        writers: dict[int, pa.RecordBatchStreamWriter] = {}
        for frame in frames:
            known = frame.filter(pl.col("row") != _NO_TURN)
            parts = known.with_columns(_part=pl.col("row") // self._size).partition_by(
                "_part", include_key=False, as_dict=True
            )
            for (part,), rows in parts.items():
                arrow = rows.to_arrow()
                if part not in writers:
                    writers[part] = pa.ipc.new_stream(self._path(int(part)), arrow.schema)
                writers[part].write_table(arrow)
        for writer in writers.values():
            writer.close()

    def between(self, start: int, end: int) -> list[pl.DataFrame]:
        wanted = range(start // self._size, (end - 1) // self._size + 1)
        for part in wanted:
            if part not in self._loaded:
                self._loaded[part] = self._load(part)
        self._loaded = {part: rows for part, rows in self._loaded.items() if part in wanted}
        return [rows.filter(pl.col("row").is_between(start, end - 1)) for rows in self._loaded.values()]

    def close(self) -> None:
        self._folder.cleanup()

    def _path(self, part: int) -> Path:
        return Path(self._folder.name) / f"{part}.arrows"

    def _load(self, part: int) -> pl.DataFrame:
        if not self._path(part).exists():
            return pl.DataFrame(schema={"row": pl.Int64})
        with pa.ipc.open_stream(str(self._path(part))) as stream:
            return frame_of_arrow(stream.read_all())


def _first_and(first: pl.DataFrame, rest: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    yield first
    yield from rest


def _turn_of_each_score(tables: Tables) -> Array:
    """For each row of scores the row of turns with its turn_id, the first of them; `_NO_TURN` where there is none."""
    turns, scores = (pl.DataFrame({"hash": _hashes(tables, table)}) for table in ("turns", "scores"))
    known = turns.with_row_index("at").unique("hash", keep="first")
    found = scores.join(known, on="hash", how="left", maintain_order="left")["at"]
    return found.cast(pl.Int64).fill_null(_NO_TURN).to_numpy()


def _hashes(tables: Tables, table: str) -> pl.Series:
    """A 64-bit hash of each turn_id: two of ten million ids share one in one log of 400,000."""
    parts = [pl.Series(dtype=pl.UInt64)]
    for batch in tables.batches(table, ["turn_id"]):
        ids = frame_of_arrow(batch)["turn_id"].cast(pl.String)
        # A turn without an id has no scores, and a score without one no turn: the two get no number in common.
        parts.append(ids.hash().set(ids.is_null(), 0 if table == "turns" else 1))
    return pl.concat(parts)
