"""One consistent view of a store: pinned hot rows and the sealed segments that were listed with them."""

# pyright: reportAttributeAccessIssue=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from collector.errors import StoreError
from collector.records import TABLES
from collector.store import codec
from collector.store.codec import StoredRow
from collector.store.columns import Column, Kind, record_schema, stored_schema
from collector.store.journal import Segment
from collector.store.layout import Layout, SegmentName
from collector.store.rebuild import Kept, Rebuilder

_DELTAS = ("prefix_seq", "prompt_prefix_tokens", "new_prompt_ids")
_REQUEST_DELTAS = ("request_prefix_messages", "new_messages", "request_rest")
_NEEDED = {
    "prompt_ids": ("session_id", "completion_ids", *_DELTAS, "writer", "seq"),
    "request": ("session_id", "completion_ids", *_DELTAS, *_REQUEST_DELTAS, "writer", "seq"),
}
_BATCH_TOKENS = 2**24
_BATCH_ROWS = 1024
_IDS = Column("ids", Kind.IDS, False)


class HotRows(NamedTuple):
    """A journal's rows of one table that were not sealed yet."""

    writer: str
    rows: list[StoredRow]


class Snapshot:
    """A store at one moment. It holds no lock; closing it frees the hot rows."""

    def __init__(
        self, layout: Layout, segments: list[Segment], hot: dict[str, list[HotRows]], damage: list[str]
    ) -> None:
        self._layout = layout
        self._segments = segments
        self._raw = hot
        self._hot: dict[str, list[pa.Table]] = {}
        self._damage = damage

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
    ) -> Iterator[pa.RecordBatch]:
        """The same rows in batches of bounded size, for tables that do not fit in memory."""
        schema = self._output_schema(table, columns)
        rebuilt = [name for name in ("prompt_ids", "request") if table == "turns" and name in schema.names]
        needed = {name for name in schema.names if name not in rebuilt}
        needed |= {part for name in rebuilt for part in _NEEDED[name]}
        wanted = {"session_id": session_id, "turn_id": turn_id}
        filters = {name: value for name, value in wanted.items() if value is not None}
        absent = [name for name in filters if name not in stored_schema(table).names]
        if absent:
            raise StoreError(f"table {table}: has no {absent[0]} to filter by, expected a table with that column")
        rebuilder = Rebuilder(lambda writer, seq, session: self._kept(writer, seq, session, "request" in rebuilt))
        for stored in self._stored(table, needed, filters):
            for part in _split_by_tokens(stored) if rebuilt else [stored]:
                yield _exposed(part, schema, rebuilt, rebuilder, self._damage)

    def _output_schema(self, table: str, columns: Sequence[str] | None) -> pa.Schema:
        full = self.schema(table)
        if columns is None:
            return full
        stored = stored_schema(table)
        unknown = [name for name in columns if name not in full.names and name not in stored.names]
        if unknown:
            raise StoreError(f"table {table}: no column {unknown[0]!r}; expected some of {', '.join(full.names)}")
        return pa.schema([full.field(n) if n in full.names else stored.field(n) for n in columns])

    def _stored(self, table: str, needed: set[str], filters: dict[str, str]) -> Iterator[pa.Table]:
        """Stored rows, writer by writer in the order of seq, a row group or the hot rows at a time."""
        names = [name for name in stored_schema(table).names if name in needed]
        by_writer: dict[str, list[Segment]] = {}
        for segment in self._segments:
            if segment.tbl == _known(table):
                by_writer.setdefault(_writer(segment), []).append(segment)
        hot = {rows["writer"][0].as_py(): rows for rows in self._hot_tables(table) if rows.num_rows}
        for writer in dict.fromkeys([*by_writer, *hot]):
            for segment in sorted(by_writer.get(writer, ()), key=lambda segment: segment.lo):
                for rows in self._row_groups(segment, names, filters):
                    yield rows.select(names)
            if writer in hot:
                yield _filtered(hot[writer], filters).select(names)

    def _row_groups(self, segment: Segment, names: list[str], filters: dict[str, str]) -> Iterator[pa.Table]:
        path = self._path(segment)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for group in range(file.num_row_groups):
                    if not filters or _may_hold(file.metadata.row_group(group), filters):
                        rows = file.read_row_group(group, columns=[*dict.fromkeys([*names, *filters])])
                        yield _filtered(rows, filters)
        except FileNotFoundError as error:
            raise StoreError(f"{path}: gone since the snapshot, expected it to stay for readers; read again") from error
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{path}: {error}, expected a whole segment; run roundhouse verify") from error

    def _hot_tables(self, table: str) -> list[pa.Table]:
        if table not in self._hot:
            if table not in self._raw:
                raise StoreError(f"table {table} is not in this snapshot; name it when you take the snapshot")
            self._hot[table] = [_opened(table, hot) for hot in self._raw.pop(table)]
        return self._hot[table]

    def _kept(self, writer: str, upto: int, session_id: str, request: bool) -> dict[int, Kept]:
        """What the turns of one session and journal keep, up to a seq."""
        needed = {*_NEEDED["request" if request else "prompt_ids"]}
        found: dict[int, Kept] = {}
        for rows in self._stored("turns", needed, {"session_id": session_id}):
            for of_writer, seq, kept in _kept_rows(rows):
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


def _may_hold(group: Any, filters: dict[str, str]) -> bool:
    """Whether a row group's statistics allow it to hold the wanted values."""
    for index in range(group.num_columns):
        column = group.column(index)
        value = filters.get(column.path_in_schema)
        statistics = column.statistics if value is not None else None
        if statistics is not None and statistics.has_min_max and not statistics.min <= value <= statistics.max:
            return False
    return True


def _split_by_tokens(rows: pa.Table) -> Iterator[pa.Table]:
    """Slices whose rebuilt prompts and requests stay within bounds."""
    added = pc.list_value_length(rows["new_prompt_ids"]).to_numpy()
    lengths = rows["prompt_prefix_tokens"].to_numpy() + added
    starts = [0]
    held = 0
    for index, length in enumerate(lengths.tolist()):
        if index - starts[-1] >= _BATCH_ROWS or (held and held + length > _BATCH_TOKENS):
            starts.append(index)
            held = 0
        held += length
    for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        yield rows.slice(start, end - start)


def _kept_rows(rows: pa.Table) -> Iterator[tuple[str, int, Kept]]:
    names = rows.schema.names

    def text(name: str) -> list[Any]:
        return rows[name].cast(pa.binary()).to_pylist() if name in names else [None] * rows.num_rows

    counts = rows["request_prefix_messages"].to_pylist() if "request_prefix_messages" in names else text("-")
    kept = zip(
        rows["session_id"].to_pylist(),
        rows["prefix_seq"].to_pylist(),
        rows["prompt_prefix_tokens"].to_pylist(),
        codec.column_bytes(_IDS, rows["new_prompt_ids"]),
        codec.column_bytes(_IDS, rows["completion_ids"]),
        counts,
        text("new_messages"),
        text("request_rest"),
        strict=True,
    )
    for writer, seq, values in zip(rows["writer"].to_pylist(), rows["seq"].to_pylist(), kept, strict=True):
        yield writer, seq, Kept(*values)


def _exposed(
    rows: pa.Table, schema: pa.Schema, rebuilt: list[str], rebuilder: Rebuilder, damage: list[str]
) -> pa.RecordBatch:
    made: dict[str, pa.Array] = {}
    if rebuilt:
        wholes = [rebuilder.whole(writer, seq, kept) for writer, seq, kept in _kept_rows(rows)]
        for (writer, seq), whole in zip(_places(rows), wholes, strict=True):
            line = f"record {seq} of {writer}: the turn its prompt extends is lost; its prompt is null"
            if whole is None and line not in damage:
                damage.append(line)
        made["prompt_ids"] = codec.list_array(_IDS, [whole.prompt if whole else None for whole in wholes])
        requests = [whole.request() if whole else None for whole in wholes]
        made["request"] = pa.array(requests, pa.binary()).cast(pa.string())
    arrays = [
        made[field.name] if field.name in rebuilt else rows[field.name].combine_chunks().cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _places(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(rows["writer"].to_pylist(), rows["seq"].to_pylist(), strict=True)
