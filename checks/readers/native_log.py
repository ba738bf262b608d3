"""A native log of whole tables as a log: Parquet files, a store, or a database."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing

import numpy as np
import polars as pl

from checks.columns import SCHEMAS, SCORE_COLUMNS, SCORES_SCHEMA, completed, empty
from checks.log import Batch, Source, Unreadable
from checks.readers.batching import BATCH_TOKENS, BATCH_TURNS
from checks.readers.column_types import typed
from checks.readers.native_advice import NATIVE_ADVICE
from checks.readers.score_join import ScoreJoin, ScorePass
from checks.readers.scored_batch import joined_scores, of_sessions
from checks.readers.tables import Tables, frame_of_arrow

_SCORED = ("trainer_logprobs", "sampling_version_logprobs", "entropies", "reference_logprobs", "advantages")
_NAMED = 20


class NativeLog:
    """Streams turns with their scores; other tables are read whole."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._turn_columns = tables.columns("turns")
        self._join: ScoreJoin | None = None
        self._numbers_missing: bool | None = None
        self._small: dict[str, pl.DataFrame] = {}

    def batches(
        self,
        columns: Sequence[str],
        score_columns: Sequence[str] = (),
        *,
        sessions: Collection[str] | None = None,
    ) -> Iterator[Batch]:
        """The turns in the order of their table."""
        if not self._turn_columns:
            return
        wanted = list(dict.fromkeys(("session_id", "turn", *columns)))
        inline = [name for name in _SCORED if name in self._turn_columns] if score_columns else []
        read = self._to_read([*wanted, *(score_columns if inline else ()), *inline])
        numbers = _Numbers() if self._without_numbers() else None
        with closing(_Scores(self._tables.origin.path, self._scores(score_columns), score_columns, inline)) as scores:
            # Scores and numbers are found by counting all turns.
            fewer = None if score_columns or numbers is not None else sessions
            for turns in self._frames(read, [*wanted, *read], fewer):
                if numbers is not None:
                    turns = numbers.given(turns)
                batch = Batch(turns.select(wanted), scores.of(turns))
                if sessions is not None:
                    batch = of_sessions(batch, sessions)
                if batch.turns.height:
                    yield batch

    def table(self, name: str) -> pl.DataFrame:
        """A small table, whole."""
        if name not in self._small:
            self._small[name] = self._whole(name)
        return self._small[name]

    def source(self) -> Source:
        """Where it is, and what could not be read so far."""
        origin = self._tables.origin
        unreadable = [*self._tables.unreadable()]
        lost = 0 if self._join is None else self._join.unmatched
        if lost:
            reason = f"{lost} scores of turns that the log does not hold; expected the turns they were made for"
            unreadable.append(Unreadable(place="scores", reason=reason))
        return Source(
            path=origin.path,
            format="native",
            reason=origin.reason,
            files=origin.files,
            unreadable=len(unreadable) + max(0, lost - 1),
            unreadable_first=tuple(unreadable[:_NAMED]),
        )

    def turns_expected(self) -> int | None:
        """As the tables know it."""
        return self._tables.rows("turns")

    def advice(self, column: str) -> str | None:
        """Where the column belongs."""
        return NATIVE_ADVICE.get(column)

    def _whole(self, name: str) -> pl.DataFrame:
        columns = list(SCHEMAS[name])
        held = [column for column in columns if column in self._tables.columns(name)]
        parts = [empty(name)]
        if held:
            for batch in self._tables.batches(name, held):
                parts.append(
                    completed(typed(frame_of_arrow(batch), name, self._tables.origin.path), name).select(columns)
                )
        return pl.concat(parts, how="vertical_relaxed")

    def _to_read(self, columns: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(columns) if name in self._turn_columns]

    def _frames(
        self, read: Sequence[str], wanted: Sequence[str], sessions: Collection[str] | None
    ) -> Iterator[pl.DataFrame]:
        """Turns, those of some sessions at least, a bounded number of tokens at a time; columns not read are null."""
        types = {name: SCHEMAS["turns"][name] for name in wanted}
        for batch in self._tables.batches("turns", read, sessions=sessions):
            frame = typed(frame_of_arrow(batch), "turns", self._tables.origin.path)
            missing = [
                pl.lit(None, dtype=of_type).alias(name) for name, of_type in types.items() if name not in frame.columns
            ]
            yield from _within_bounds(frame.with_columns(missing))

    def _without_numbers(self) -> bool:
        if self._numbers_missing is None:
            if "turn" not in self._turn_columns:
                self._numbers_missing = True
            else:
                batches = self._tables.batches("turns", ["turn"])
                self._numbers_missing = any(batch.column("turn").null_count for batch in batches)
        return self._numbers_missing

    def _scores(self, score_columns: Sequence[str]) -> ScorePass | None:
        held = self._tables.columns("scores")
        if not score_columns or "turn_id" not in held or "turn_id" not in self._turn_columns:
            return None
        if self._join is None:
            self._join = ScoreJoin(self._tables)
        return self._join.pass_over([name for name in score_columns if name in held])


class _Scores:
    """The scores of turns as they pass: of their own table, and those that stand in the turns."""

    def __init__(self, path: str, joined: ScorePass | None, columns: Sequence[str], inline: Sequence[str]) -> None:
        self._path = path
        self._joined = joined
        self._columns = ["row", *columns]
        self._inline = inline
        self._start = 0

    def of(self, turns: pl.DataFrame) -> pl.DataFrame:
        """`row` into the frame and the columns asked for."""
        scores = pl.DataFrame(schema={name: SCORES_SCHEMA[name] for name in self._columns})
        if self._inline:
            held = pl.any_horizontal(pl.col(name).is_not_null() for name in self._inline)
            own = turns.with_row_index("row").filter(held)
            scores = joined_scores(scores, _with_all(own, self._columns))
        if self._joined is not None:
            end = self._start + turns.height
            found = self._joined.between(self._start, end)
            self._start = end
            if found is not None:
                scores = joined_scores(scores, _with_all(typed(found, "scores", self._path), self._columns))
        return scores

    def close(self) -> None:
        if self._joined is not None:
            self._joined.close()


class _Numbers:
    """Numbers turns within their session by their order, where the log has no number."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def given(self, turns: pl.DataFrame) -> pl.DataFrame:
        """The turns, each with a number."""
        before = pl.Series([self._seen.get(session, 0) for session in turns["session_id"].to_list()], dtype=pl.Int64)
        line = turns.select(pl.int_range(1, pl.len() + 1).over("session_id").cast(pl.Int64)).to_series() + before
        for session, last in zip(turns["session_id"].to_list(), line.to_list(), strict=True):
            self._seen[session] = last
        return turns.with_columns(turn=pl.coalesce("turn", line))


def _within_bounds(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Slices of at most BATCH_TOKENS tokens and BATCH_TURNS turns, more only where one turn has more."""
    lengths = [
        frame[name].list.len().fill_null(0).to_numpy()
        for name in ("prompt_ids", "completion_ids")
        if name in frame.columns
    ]
    ends = np.cumsum(np.sum(lengths, axis=0, dtype=np.int64)) if lengths else np.zeros(frame.height, np.int64)
    start, before = 0, 0
    while start < frame.height:
        end = int(np.searchsorted(ends, before + BATCH_TOKENS, "right"))
        end = min(max(end, start + 1), start + BATCH_TURNS)
        yield frame.slice(start, end - start)
        start, before = end, int(ends[end - 1])


def _with_all(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    return frame.with_columns(
        pl.lit(None, dtype=SCORES_SCHEMA[name]).alias(name) for name in columns if name not in frame.columns
    ).select(columns)


assert set(_SCORED) <= set(SCORE_COLUMNS)
