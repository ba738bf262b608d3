"""One consistent view of a store: pinned hot rows and the sealed segments that were listed with them."""

# pyright: reportAttributeAccessIssue=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from collector.errors import StoreError
from collector.records import TABLES
from collector.store import codec
from collector.store.codec import StoredRow
from collector.store.columns import record_schema, stored_schema
from collector.store.journal import Segment
from collector.store.layout import Layout, SegmentName
from collector.store.rebuild import Kept, Rebuilder
from collector.store.segment_rows import SegmentRows
from collector.store.turn_columns import NEEDED, kept_rows, made_whole, split_by_tokens

_REBUILT = ("prompt_ids", "request")
_JUDGED = ("trainable", "untrainable_reason")


class HotRows(NamedTuple):
    """A journal's rows of one table that were not sealed yet."""

    writer: str
    rows: list[StoredRow]


class Snapshot:
    """A store at one moment. It holds no lock; closing it frees the hot rows."""

    def __init__(
        self,
        layout: Layout,
        segments: list[Segment],
        hot: dict[str, list[HotRows]],
        damage: list[str],
        *,
        prompts_at_risk: bool,
    ) -> None:
        self._layout = layout
        self._segments = segments
        self._sealed = SegmentRows(layout)
        self._raw = hot
        self._hot: dict[str, list[pa.Table]] = {}
        self._damage = damage
        self._prompts_at_risk = prompts_at_risk
        self.refusal: StoreError | None = None
        """Why a read ended early; DuckDB, when it reads, would pass it on as the text of a traceback."""

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the hot rows."""
        self._raw.clear()
        self._hot.clear()

    @property
    def damage(self) -> tuple[str, ...]:
        """What could not be read, one line each."""
        return tuple(self._damage)

    def schema(self, table: str) -> pa.Schema:
        """Columns of a table: the record's fields, then writer, seq and crc32."""
        return record_schema(_known(table))

    def sealed_segments(self, table: str) -> list[Path]:
        """The table's sealed Parquet files; their columns are the stored ones."""
        return [self._path(s) for s in self._segments if s.tbl == _known(table)]

    def frame(
        self,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
    ) -> pl.DataFrame:
        """A table as a Polars frame, in the order of writers and their seqs."""
        arrow = self.arrow(table, columns=columns, session_id=session_id, turn_id=turn_id)
        frame = pl.from_arrow(arrow)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def arrow(
        self,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
    ) -> pa.Table:
        """A table as an Arrow table, in the order of writers and their seqs."""
        batches = list(self.batches(table, columns=columns, session_id=session_id, turn_id=turn_id))
        return pa.Table.from_batches(batches, schema=self._output_schema(table, columns))

    def batches(
        self,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
        since: Mapping[str, int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The same rows in batches of bounded size, for tables that do not fit in memory.

        `since` is writer to the first seq that is wanted of it: segments that end before are not opened.
        """
        schema = self._output_schema(table, columns)
        of_turns = set(schema.names) if table == "turns" else set[str]()
        rebuilt = of_turns.intersection(_REBUILT)
        # Whether a turn may be trained on hangs on its prompt, which nothing but damage takes away.
        if self._prompts_at_risk and of_turns.intersection(_JUDGED):
            rebuilt.add("prompt_ids")
        needed = {*schema.names, *(part for name in {*rebuilt, *of_turns} for part in NEEDED.get(name, ()))}
        needed |= {"seq"} if since else set()
        filters = self._filters(table, session_id=session_id, turn_id=turn_id)
        rebuilder = Rebuilder(lambda writer, seq, session: self._kept(writer, seq, session, "request" in rebuilt))
        try:
            for stored in self._stored(table, needed, filters, since or {}):
                for part in split_by_tokens(stored) if rebuilt else [stored]:
                    made = made_whole(part, schema.names, rebuilder, self._damage) if rebuilt else {}
                    yield _exposed(part, schema, made)
        except StoreError as error:
            self.refusal = error
            raise

    def _filters(self, table: str, **wanted: str | None) -> dict[str, str]:
        filters = {name: value for name, value in wanted.items() if value is not None}
        absent = [name for name in filters if name not in stored_schema(table).names]
        if absent:
            raise StoreError(f"table {table}: has no {absent[0]} to filter by, expected a table with that column")
        return filters

    def _output_schema(self, table: str, columns: Sequence[str] | None) -> pa.Schema:
        full = self.schema(table)
        if columns is None:
            return full
        stored = stored_schema(table)
        unknown = [name for name in columns if name not in full.names and name not in stored.names]
        if unknown:
            raise StoreError(f"table {table}: no column {unknown[0]!r}; expected some of {', '.join(full.names)}")
        return pa.schema([full.field(n) if n in full.names else stored.field(n) for n in columns])

    def _stored(
        self, table: str, needed: set[str], filters: dict[str, str], since: Mapping[str, int]
    ) -> Iterator[pa.Table]:
        """Stored rows, writer by writer in the order of seq, a row group or the hot rows at a time."""
        names = [name for name in stored_schema(table).names if name in needed]
        by_writer: dict[str, list[Segment]] = {}
        for segment in self._segments:
            if segment.tbl == _known(table):
                by_writer.setdefault(_writer(segment), []).append(segment)
        hot = {rows["writer"][0].as_py(): rows for rows in self._hot_tables(table) if rows.num_rows}
        for writer in dict.fromkeys([*by_writer, *hot]):
            first = since.get(writer, 0)
            for segment in sorted(by_writer.get(writer, ()), key=lambda segment: segment.lo):
                if segment.hi < first:
                    continue
                for rows in self._sealed.groups(segment, names, filters):
                    yield _from_seq(rows.select(names), first)
            if writer in hot:
                yield _from_seq(_filtered(hot[writer], filters).select(names), first)

    def _hot_tables(self, table: str) -> list[pa.Table]:
        if table not in self._hot:
            if table not in self._raw:
                raise StoreError(f"table {table} is not in this snapshot; name it when you take the snapshot")
            self._hot[table] = [_opened(table, hot) for hot in self._raw.pop(table)]
        return self._hot[table]

    def _kept(self, writer: str, upto: int, session_id: str, request: bool) -> dict[int, Kept]:
        """What the turns of one session and journal keep, up to a seq."""
        needed = {*NEEDED["request" if request else "prompt_ids"]}
        found: dict[int, Kept] = {}
        for rows in self._stored("turns", needed, {"session_id": session_id}, {}):
            for of_writer, seq, kept in kept_rows(rows):
                if of_writer == writer and seq <= upto:
                    found[seq] = kept
        return found

    def _path(self, segment: Segment) -> Path:
        return self._layout.table(segment.tbl) / segment.name


def _known(table: str) -> str:
    if table not in TABLES:
        raise StoreError(f"no table {table!r}; expected one of {', '.join(TABLES)}")
    return table


def _writer(segment: Segment) -> str:
    name = SegmentName.parse(segment.name)
    assert name is not None, segment.name
    return name.writer


def _opened(table: str, hot: HotRows) -> pa.Table:
    rows = [(row.seq, row.crc32, codec.open_row(row) or ()) for row in hot.rows]
    return codec.to_arrow(table, hot.writer, rows)


def _filtered(rows: pa.Table, filters: dict[str, str]) -> pa.Table:
    for name, value in filters.items():
        rows = rows.filter(pc.equal(rows[name], value))
    return rows


def _from_seq(rows: pa.Table, first: int) -> pa.Table:
    return rows.filter(pc.greater_equal(rows["seq"], first)) if first else rows


def _exposed(rows: pa.Table, schema: pa.Schema, made: dict[str, pa.Array]) -> pa.RecordBatch:
    arrays = [
        made[field.name] if field.name in made else rows[field.name].combine_chunks().cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
