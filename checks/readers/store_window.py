"""The latest part of a store as a log: a window that moves on, and of which each evaluation reads only what is new."""

# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# (pyarrow carries no types)

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from checks.log import Unreadable
from checks.readers.native_log import NativeLog
from checks.readers.tables import Origin, frame_of_arrow
from collector.records import TABLES
from collector.store.registry_tables import registry_tables
from collector.store.snapshot import Snapshot

_TIMES = {"steps": "at", "spans": "to", "events": "at"}
"""Tables whose rows are in the window by a time of their own."""
_WHOLE = ("evals", "runs")
"""Tables of few rows, with no time that would tell: all of them are in every window, as all versions are."""
_KEYS: dict[str, tuple[str, ...]] = {
    "turns": ("turn_id", "session_id", "started_at", "finished_at", "tenant", "adapter"),
    "scores": ("turn_id",),
    "rewards": ("session_id",),
    "feedback": ("turn_id", "session_id"),
    "steps": ("at",),
    "spans": ("to",),
    "events": ("at", "session_id"),
}
"""Columns that tell whether a row is in the window, and whose it is."""


class Window(NamedTuple):
    """How far back an evaluation looks: so many seconds, or so many turns."""

    seconds: float | None = None
    turns: int | None = None

    @property
    def name(self) -> str:
        """As it stands beside every number."""
        if self.turns is not None:
            return f"the last {self.turns:,} turns"
        assert self.seconds is not None
        for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
            if self.seconds >= size and self.seconds % size == 0:
                return f"the last {self.seconds / size:g} {unit}"
        return f"the last {self.seconds:g} s"


class TurnsOf(NamedTuple):
    """Whose turns a window holds: those of one tenant that one adapter or the base model sampled."""

    tenant: str
    adapter: str
    since: datetime | None = None
    """Those that began before are left out."""


class StoreWindow:
    """A window over a store. It remembers from which record on anything may still be in it.

    A turn is in it by when it ended; its scores, rewards and feedback come with it, whenever they were written. Steps,
    spans and events are in it by their own time; evaluations, runs and versions are all there.
    """

    def __init__(self, store: Path, window: Window, *, of: TurnsOf | None = None) -> None:
        """`of` keeps other turns from filling the window."""
        self._store = store
        self._window = window
        self._of = of
        self._since: dict[str, dict[str, int]] = {table: {} for table in _KEYS}

    def log(self, snapshot: Snapshot, now: datetime) -> NativeLog:
        """What is in the window now, to be read before the snapshot is closed."""
        read = {table: _key_rows(snapshot, table, self._since[table]) for table in _KEYS}
        turns = self._latest(read["turns"], now)
        cutoff = self._cutoff(turns, now)
        kept = {
            table: turns if table == "turns" else _inside(table, rows, turns, cutoff) for table, rows in read.items()
        }
        for table, rows in kept.items():
            self._since[table] = _first_seqs(read[table], rows, self._since[table])
        return NativeLog(_WindowTables(self._store, self._window, snapshot, kept, dict(self._since)))

    def _latest(self, turns: pl.DataFrame, now: datetime) -> pl.DataFrame:
        if self._of is not None:
            sampled = pl.col("adapter").is_null() | (pl.col("adapter") == self._of.adapter)
            turns = turns.filter((pl.col("tenant") == self._of.tenant) & sampled)
            if self._of.since is not None:
                turns = turns.filter(pl.col("started_at") >= self._of.since)
        ended = pl.coalesce("finished_at", "started_at")
        if self._window.turns is not None:
            return turns.sort(ended, "writer", "seq").tail(self._window.turns)
        assert self._window.seconds is not None
        return turns.filter(ended >= now - timedelta(seconds=self._window.seconds))

    def _cutoff(self, turns: pl.DataFrame, now: datetime) -> datetime | None:
        """From when on other records are in the window; None for always."""
        if self._window.seconds is not None:
            return now - timedelta(seconds=self._window.seconds)
        if self._window.turns is None or turns.height < self._window.turns:
            return None
        first = turns["started_at"].min()
        assert isinstance(first, datetime)
        return first


class _WindowTables:
    """The rows that were found to be in the window, read from the snapshot as often as asked."""

    def __init__(
        self,
        store: Path,
        window: Window,
        snapshot: Snapshot,
        kept: Mapping[str, pl.DataFrame],
        since: Mapping[str, Mapping[str, int]],
    ) -> None:
        self._store = store
        self._window = window
        self._snapshot = snapshot
        self._since = since
        self._heights = {table: rows.height for table, rows in kept.items()}
        self._seqs = {table: _seqs(rows) for table, rows in kept.items()}
        self._registry = registry_tables(store)

    @property
    def origin(self) -> Origin:
        """The store and the window."""
        return Origin(str(self._store), f"{self._window.name} of a store", 0)

    def columns(self, table: str) -> Sequence[str]:
        """Those of the record, and the keys."""
        if table in self._registry:
            return self._registry[table].schema.names
        return self._snapshot.schema(table).names if table in TABLES else ()

    def batches(
        self, table: str, columns: Sequence[str], *, sessions: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Writer by writer in the order of seq, prompts rebuilt."""
        if table in self._registry:
            yield from self._registry[table].select(list(columns)).to_batches()
            return
        if table in _WHOLE:
            yield from self._snapshot.batches(table, columns=columns)
            return
        one = next(iter(sessions)) if sessions is not None and len(sessions) == 1 else None
        keyed = [*dict.fromkeys([*columns, "writer", "seq"])]
        for batch in self._snapshot.batches(table, columns=keyed, session_id=one, since=self._since[table]):
            wanted = self._seqs[table].get(batch["writer"][0].as_py()) if batch.num_rows else None
            if wanted is not None:
                inside = batch.filter(pc.is_in(batch["seq"], value_set=wanted))
                yield inside.select(list(columns))

    def rows(self, table: str) -> int | None:
        """Counted beforehand."""
        return self._heights.get(table)

    def unreadable(self) -> Sequence[Unreadable]:
        """The damage that the snapshot knows of, of the whole store."""
        return [Unreadable(place=str(self._store), reason=line) for line in dict.fromkeys(self._snapshot.damage)]


def _key_rows(snapshot: Snapshot, table: str, since: Mapping[str, int]) -> pl.DataFrame:
    """The keys of every row that may be in the window."""
    columns = [*_KEYS[table], "writer", "seq"]
    nothing = pa.schema([snapshot.schema(table).field(name) for name in columns]).empty_table()
    batches = snapshot.batches(table, columns=columns, since=since)
    return pl.concat([frame_of_arrow(nothing), *(frame_of_arrow(batch) for batch in batches)])


def _inside(table: str, rows: pl.DataFrame, turns: pl.DataFrame, cutoff: datetime | None) -> pl.DataFrame:
    """Those of the rows that are in the window."""
    of_turn = pl.col("turn_id").is_in(turns["turn_id"].to_list())
    of_session = pl.col("session_id").is_in(turns["session_id"].unique().to_list())
    if table == "scores":
        return rows.filter(of_turn)
    if table == "rewards":
        return rows.filter(of_session)
    if table == "feedback":
        return rows.filter(of_turn | (pl.col("turn_id").is_null() & of_session))
    if cutoff is None:
        return rows
    late = pl.col(_TIMES[table]) >= cutoff
    return rows.filter(late | of_session if table == "events" else late)


def _first_seqs(read: pl.DataFrame, kept: pl.DataFrame, before: Mapping[str, int]) -> dict[str, int]:
    """Writer to the first seq that may still be in a window: rows that have left it do not come back."""
    past = dict(read.group_by("writer").agg(pl.col("seq").max() + 1).rows())
    held = dict(kept.group_by("writer").agg(pl.col("seq").min()).rows())
    return {**before, **past, **held}


def _seqs(rows: pl.DataFrame) -> dict[str, pa.Array]:
    return {str(writer): pa.array(of_writer["seq"]) for (writer,), of_writer in rows.group_by("writer")}
