"""A log as checks read it: turns in batches, everything else in small whole frames."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import polars as pl

from checks.bounded import bounded
from checks.columns import SCORE_COLUMNS, SCORES_SCHEMA, TABLES, completed, empty
from checks.readers.column_types import typed
from collector.errors import UserError


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a log that could not be read."""

    place: str
    """`file:line`, or the file."""
    reason: str
    """What was found there and what was expected."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log came from, and how much of it could be read."""

    path: str
    format: str
    """The format's name, or several joined by `+`."""
    reason: str = ""
    """By what it was recognised."""
    files: int = 0
    unreadable: int = 0
    """Pieces (lines, files, entries) that could not be read."""
    unreadable_first: tuple[Unreadable, ...] = ()
    """The first of them."""
    skipped: int = 0
    """Files of the folder that are of no known format."""
    skipped_first: tuple[Unreadable, ...] = ()
    """The first of them, and what each seems to be."""


class Batch(NamedTuple):
    """Some turns of a log, in its order, with the trainer's scores of them."""

    turns: pl.DataFrame
    """The columns asked for, and always `session_id` and `turn`."""
    scores: pl.DataFrame
    """`row` (into `turns`) and the score columns asked for; a turn may have none, one or several."""


class Log(Protocol):
    """What a check can be run on. A pass over the turns may be repeated."""

    def batches(
        self,
        columns: Sequence[str],
        score_columns: Sequence[str] = (),
        *,
        sessions: Collection[str] | None = None,
    ) -> Iterator[Batch]:
        """The turns, or those of some sessions, a bounded number of tokens at a time."""
        ...

    def table(self, name: str) -> pl.DataFrame:
        """A small table, whole, with every column of `SCHEMAS[name]`."""
        ...

    def source(self) -> Source:
        """Where it came from; what could not be read is complete after a pass over the turns."""
        ...

    def turns_expected(self) -> int | None:
        """How many turns a pass will give, where that is known beforehand."""
        ...

    def advice(self, column: str) -> str | None:
        """How the framework that wrote the log is made to record `table.column`."""
        ...


class MemoryLog:
    """Frames in memory as a log: for a training loop that checks its own rollouts, and for tests."""

    def __init__(self, frames: Mapping[str, pl.DataFrame], *, path: str = "memory") -> None:
        unknown = sorted(set(frames) - set(TABLES))
        if unknown:
            raise UserError(f"no table {unknown[0]!r}, expected some of {', '.join(TABLES)}")
        self._frames = {name: _as_table(frame, name, path) for name, frame in frames.items()}
        self._path = path
        turns = self._frames.get("turns")
        if turns is not None and turns["turn"].null_count():
            by_line = pl.int_range(1, pl.len() + 1).over("session_id").cast(pl.Int64)
            self._frames["turns"] = turns.with_columns(turn=pl.coalesce("turn", by_line))

    def batches(
        self,
        columns: Sequence[str],
        score_columns: Sequence[str] = (),
        *,
        sessions: Collection[str] | None = None,
    ) -> Iterator[Batch]:
        """All turns in one batch."""
        turns = self._frames.get("turns")
        if turns is None or turns.is_empty():
            return
        if sessions is not None:
            turns = turns.filter(pl.col("session_id").is_in(list(sessions)))
        yield split_scores(turns, columns, score_columns)

    def table(self, name: str) -> pl.DataFrame:
        """The frame given under that name, else an empty one."""
        return self._frames.get(name, empty(name))

    def source(self) -> Source:
        """Memory."""
        return Source(path=self._path, format="native", reason="frames in memory")

    def turns_expected(self) -> int | None:
        """The height of the frame."""
        turns = self._frames.get("turns")
        return 0 if turns is None else turns.height

    def advice(self, column: str) -> str | None:
        """The column itself."""
        return f"give the frame a column {column}"


def _as_table(frame: object, name: str, path: str) -> pl.DataFrame:
    """A frame as somebody made it with the columns and types of its table; what cannot be one is refused by name."""
    if not isinstance(frame, pl.DataFrame):
        found = f"{type(frame).__module__.split('.')[0]}.{type(frame).__name__}"
        raise UserError(
            f"{path}: {name} is a {found}, expected a polars DataFrame; make it one with pl.DataFrame or collect"
        )
    table = completed(typed(frame, name, path), name)
    if frame.height:
        for field in msgspec.structs.fields(TABLES[name]):
            column = field.name.rstrip("_")
            if not field.required:
                continue
            if column not in frame.columns:
                found = ", ".join(frame.columns)
                raise UserError(f"{path}: {name} has no column {column}, found {found}; every row needs one")
            if table[column].null_count():
                row = int(table[column].is_null().arg_max() or 0)
                raise UserError(f"{path}: {name}.{column} is null in row {row}, expected a value in every row")
    return table


def split_scores(turns: pl.DataFrame, columns: Sequence[str], score_columns: Sequence[str]) -> Batch:
    """A batch from turns that carry their scores themselves, as JSON lines and rows of readers do."""
    wanted = list(dict.fromkeys(("session_id", "turn", *columns)))
    scored = [name for name in SCORE_COLUMNS if name.endswith("logprobs") or name in ("entropies", "advantages")]
    held = turns.with_row_index("row").filter(pl.any_horizontal(pl.col(name).is_not_null() for name in scored))
    scores = held.select("row", *score_columns) if score_columns else held.select("row").head(0)
    assert set(score_columns) <= set(SCORES_SCHEMA), score_columns
    return Batch(turns.select(wanted), _with_more(scores, turns) if score_columns else scores)


def _with_more(scores: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """The scores with those of turns that were scored more than once, in the order of the turns."""
    if "more_scores" not in turns.columns or turns["more_scores"].null_count() == turns.height:
        return scores
    exploded = turns.with_row_index("row").select("row", "adapter", "more_scores").drop_nulls("more_scores")
    each = exploded.explode("more_scores").drop_nulls("more_scores").rename({"adapter": "of_turn"})
    more = each.unnest("more_scores").with_columns(adapter=pl.coalesce("adapter", "of_turn"))
    return pl.concat([scores, bounded(more.select(scores.columns))], how="vertical_relaxed").sort(
        "row", maintain_order=True
    )
